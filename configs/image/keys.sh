#!/bin/bash
# Makes throw-away keys for a build: an authority for update bundles, a release key under it, and a key for the downloads.
#
#   configs/image/keys.sh FOLDER
#
# A release is signed with keys that never were on a build machine's disk: see docs/decisions/0028-release-keys-below-an-offline-ca.md.
set -euo pipefail

keys=$1
[ ! -f "$keys/release.pem" ] || exit 0
mkdir -p "$keys"
chmod 700 "$keys"
openssl req -x509 -newkey rsa:3072 -nodes -keyout "$keys/ca.key" -out "$keys/ca.pem" -days 7300 -subj "/O=Edgewise/CN=Edgewise update authority (throw-away)" \
	-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
openssl req -newkey rsa:3072 -nodes -keyout "$keys/release.key" -out "$keys/release.csr" -subj "/O=Edgewise/CN=Edgewise release (throw-away)" 2>/dev/null
printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=emailProtection,codeSigning\n' >"$keys/extensions"
openssl x509 -req -in "$keys/release.csr" -CA "$keys/ca.pem" -CAkey "$keys/ca.key" -CAcreateserial -days 730 -extfile "$keys/extensions" -out "$keys/release.pem" 2>/dev/null
minisign -G -W -f -p "$keys/edgewise.pub" -s "$keys/edgewise.key" >/dev/null
rm "$keys/extensions" "$keys/release.csr"
