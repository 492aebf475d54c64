// Settings, System: what the document of its fleet has told the box, what became of it, and why another document is refused.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { equal, judge, scenario } from './harness.mjs';

const folder = mkdtempSync(join(tmpdir(), 'fleet-'));
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const id = randomBytes(8);
const head = Buffer.concat([Buffer.from('Ed'), id]);
const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
writeFileSync(join(folder, 'fleet.pub'), `untrusted comment: minisign public key\n${Buffer.concat([head, raw]).toString('base64')}\n`);

// put writes a document and its signature, as minisign makes it.
const put = (serial, label) => {
  const text = JSON.stringify({
    format: 1, fleet: 'shops', serial, groups: { all: { percent: 100 } }, settings: { keep_versions: 3 },
    models: [{ model: 'cat', label, reference: `oci://127.0.0.1:1/models/cat@sha256:${'1'.repeat(64)}`, stages: [{ group: 'all' }] }],
  });
  const signature = sign(null, Buffer.from(text), privateKey);
  const comment = 'timestamp:1700000000';
  const whole = sign(null, Buffer.concat([signature, Buffer.from(comment)]), privateKey);
  writeFileSync(join(folder, 'fleet.json.minisig'),
    `untrusted comment: signature\n${Buffer.concat([head, signature]).toString('base64')}\ntrusted comment: ${comment}\n${whole.toString('base64')}\n`);
  writeFileSync(join(folder, 'fleet.json'), text);
};
put(7, 'live');

export default () => scenario({ set: { 'fleet.source': folder, 'fleet.trusted_keys': folder, 'fleet.interval': '1s', 'fleet.box': 'berlin-1' } }, async (box, visitor) => {
  await box.claim();
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/settings/system', 'Settings');
  const fleet = page.locator('section', { has: page.getByRole('heading', { name: 'Fleet', exact: true }) });
  await fleet.getByText('shops, serial 7').waitFor();
  await fleet.getByText('berlin-1').waitFor();
  await fleet.getByText('as far as possible').waitFor();
  await fleet.getByText('failed, is tried again').waitFor();
  await fleet.getByText(/unavailable|is not installed/).first().waitFor(); // by the program that fetches, or because there is none
  await fleet.getByText('done', { exact: true }).waitFor(); // the settings
  put(6, 'live');
  await fleet.getByText('its serial is 6, and this box has followed 7 already').waitFor();
  equal(await judge(page, 'fleet'), [], 'what axe found');
  rmSync(folder, { recursive: true, force: true });
});
