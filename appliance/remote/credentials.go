package remote

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// maxCredentials bounds files of credentials.
const maxCredentials = 1 << 20

// credentialsFile is Triton's form of TRITON_CLOUD_CREDENTIAL_PATH: credentials by the beginning of the URLs that they
// are for.
type credentialsFile struct {
	GS map[string]string `json:"gs"` // paths of Google's files of credentials
	S3 map[string]struct {
		SecretKey    string `json:"secret_key"`
		KeyID        string `json:"key_id"`
		Region       string `json:"region"`
		SessionToken string `json:"session_token"`
		Profile      string `json:"profile"`
	} `json:"s3"`
	AS map[string]struct {
		Account string `json:"account_str"`
		Key     string `json:"account_key"`
	} `json:"as"`
	OCI map[string]struct {
		User     string `json:"user"`
		Password string `json:"password"`
		Token    string `json:"token"`
	} `json:"oci"`
}

// credentialsOf returns those that a file has for a URL: those of the longest beginning of it. Nothing when there is no file,
// or when it says nothing for URLs of that scheme. Errors: Denied. They hold nothing that stands in the file.
func credentialsOf(file, url string) (c fetch.Credentials, err error) {
	if file == "" {
		return c, nil
	}
	data, err := readSecret(file)
	if err != nil {
		return c, edgewise.Errorf("remote.Credentials", edgewise.Denied, "%s: the file of credentials cannot be read: %w", url, err)
	}
	var all credentialsFile
	if json.Unmarshal(data, &all) != nil { // its words would quote the file
		return c, edgewise.Errorf("remote.Credentials", edgewise.Denied,
			"%s: the file of credentials %s is not the JSON that TRITON_CLOUD_CREDENTIAL_PATH is documented to name", url, file)
	}
	scheme, _, _ := strings.Cut(url, "://")
	known := true
	switch scheme {
	case "s3":
		found, ok := longest(all.S3, url)
		c.SecretKey, c.KeyID, c.Region, c.SessionToken, c.Profile = found.SecretKey, found.KeyID, found.Region, found.SessionToken, found.Profile
		known = ok || all.S3 == nil
	case "as":
		found, ok := longest(all.AS, url)
		c.Account, c.AccountKey = found.Account, found.Key
		known = ok || all.AS == nil
	case "oci":
		found, ok := longest(all.OCI, url)
		c.User, c.Password, c.Token = found.User, found.Password, found.Token
		known = ok || all.OCI == nil
	case "gs":
		path, ok := longest(all.GS, url)
		if known = ok || all.GS == nil; path == "" {
			break
		}
		content, err := readSecret(path)
		if err != nil {
			return c, edgewise.Errorf("remote.Credentials", edgewise.Denied, "%s: the file of credentials cannot be read: %w", url, err)
		}
		c.ServiceAccount = string(content)
	}
	if !known {
		return c, edgewise.Errorf("remote.Credentials", edgewise.Denied, "%s: %s has no credentials for it", url, file)
	}
	return c, nil
}

// longest returns the value of the longest beginning of a URL.
func longest[T any](of map[string]T, url string) (value T, found bool) {
	best := -1
	for prefix, v := range of {
		if len(prefix) > best && strings.HasPrefix(url, prefix) {
			best, value, found = len(prefix), v, true
		}
	}
	return value, found
}

func readSecret(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxCredentials+1))
	if len(data) > maxCredentials {
		err = errors.New("it is too large")
	}
	return data, err
}

// trustOf reads the keys that artifacts at a URL may be signed with. Errors: Denied.
func trustOf(url string, r config.Registry) (trust fetch.Trust, err error) {
	const op = "remote.trustOf"
	if trust.Require = r.RequireSignature; r.TrustedKeys == "" || !isReference(url) {
		return trust, nil
	}
	paths, err := filepath.Glob(filepath.Join(r.TrustedKeys, "*.pub"))
	if err != nil {
		return trust, edgewise.Errorf(op, edgewise.Denied, "%s: the folder of trusted keys %s cannot be read", url, r.TrustedKeys)
	}
	for _, path := range paths {
		text, err := readSecret(path)
		if err != nil {
			return trust, edgewise.Errorf(op, edgewise.Denied, "%s: the trusted key %s cannot be read", url, path)
		}
		trust.Keys = append(trust.Keys, string(text))
	}
	return trust, nil
}
