// The box over TLS with the certificate that it made itself: claimed, the fingerprint compared, a picture taken, and another
// certificate put in its place.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:tls';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, password, scenario, until } from './harness.mjs';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // the certificate is what this is about
process.removeAllListeners('warning');

export default () => scenario({ tls: true, imports: ['dist/demo/models'] }, async (box, visitor) => {
  const { page } = visitor;
  const fingerprint = () => new Promise((resolve, reject) => { const s = connect(box.port, '127.0.0.1', { rejectUnauthorized: false }, () => { resolve(s.getPeerCertificate().fingerprint256); s.end(); }).on('error', reject); });
  const own = await fingerprint();
  check(box.output.replaceAll(/[^0-9A-F]/gi, '').toUpperCase().includes(own.replaceAll(':', '')), `the console does not show the fingerprint ${own}`);
  const moved = await new Promise((r) => request({ port: box.port, host: '127.0.0.1', path: '/models', headers: { Accept: 'text/html' } }, r).end());
  check([301, 302, 307, 308].includes(moved.statusCode) && moved.headers.location === `${box.url}/models`, `without TLS: ${moved.statusCode} ${moved.headers.location}`);

  const response = await page.goto(box.url);
  equal(response.headers()['content-encoding'], 'br', 'how the page is packed over TLS');
  await page.getByLabel('Claim code').fill(box.code);
  await page.getByLabel('Your name on this box').fill('anna');
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Claim this box' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'The connection is encrypted' }).waitFor();
  const shown = (await page.getByText(/([0-9A-F]{2}[: ]?){32}/i).first().innerText()).replaceAll(/[^0-9A-F]/gi, '').toUpperCase();
  equal(shown.slice(0, 64), own.replaceAll(':', ''), 'the fingerprint in the page');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Later' }).click();
  await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  const cookie = (await visitor.context.cookies()).find((c) => c.name.includes('edgewise'));
  equal([cookie.name, cookie.secure, cookie.httpOnly, cookie.sameSite], ['__Host-edgewise', true, true, 'Strict'], 'the cookie');
  await page.getByText('Live', { exact: true }).waitFor();

  // The camera works here, as it does on no page without encryption but the box's own.
  await visitor.open('/models/face/try', 'face');
  await page.getByRole('button', { name: 'Camera' }).click();
  await page.getByRole('button', { name: 'Take the picture' }).click();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('region', { name: /^Output Identity/ }).first().waitFor();

  // Another certificate: a wrong pair is refused and changes nothing, a good one is there at once.
  const base = mkdtempSync(join(tmpdir(), 'edgewise-tls-'));
  const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30', '-subj', '/CN=dock.example', '-addext', 'subjectAltName=DNS:dock.example,IP:127.0.0.1', '-keyout', join(base, 'key.pem'), '-out', join(base, 'certificate.pem')]);
  check(made.status === 0, `no certificate: ${made.stderr}`);
  await visitor.open('/settings/security', 'Settings');
  visitor.allow(/status of 400/);
  await page.getByRole('button', { name: 'Use your own certificate' }).click();
  await page.getByLabel('File of the certificate').setInputFiles(join(base, 'certificate.pem'));
  await page.getByLabel('Private key', { exact: true }).fill('-----BEGIN PRIVATE KEY-----\nbm8=\n-----END PRIVATE KEY-----');
  await page.getByRole('button', { name: 'Use it' }).click();
  await page.getByRole('alert').waitFor();
  equal(await fingerprint(), own, 'the certificate after a wrong key');
  await page.getByLabel('Private key', { exact: true }).fill(readFileSync(join(base, 'key.pem'), 'utf8'));
  await page.getByRole('button', { name: 'Use it' }).click();
  await page.getByText('On, with your certificate').waitFor();
  await until('the new certificate', async () => (await fingerprint()) !== own);
  await page.getByRole('button', { name: 'Use the self-signed certificate' }).click();
  await page.getByText('On, with a self-signed certificate').waitFor();
  rmSync(base, { recursive: true, force: true });
});
