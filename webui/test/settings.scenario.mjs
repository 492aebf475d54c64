// The pages of activity and settings, the reference, and an address that is none, as round.mjs looks at them; and what stands there
// without scripts.
import { readFileSync } from 'node:fs';
import { check, equal, sample, scenario, Visitor } from './harness.mjs';
import { round } from './round.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'], context: { reducedMotion: 'reduce' } }, async (box, visitor) => {
  const admin = await box.claim();
  await admin.fetch('/v2/models/faces/infer', { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } });
  await visitor.login();
  equal(await round(visitor, [
    ['/activity/requests', 'Activity'], ['/activity/history', 'Activity'], ['/activity/alerts', 'Activity'], ['/activity/logs', 'Activity'], ['/activity/audit', 'Activity'],
    ['/settings/general', 'Settings'], ['/settings/me', 'Settings'], ['/settings/users', 'Settings'], ['/settings/keys', 'Settings'], ['/settings/security', 'Settings'], ['/settings/backup', 'Settings'], ['/settings/configuration', 'Settings'], ['/settings/about', 'Settings'],
    ['/api-reference', 'API'], ['/nothing/here', 'There is no such page'],
  ]), [], 'what axe, the phone and the large text found');

  // Without scripts the page says so.
  const plain = await Visitor.start(box, { browser: visitor.browser, context: { javaScriptEnabled: false } });
  await plain.page.goto(box.url);
  const said = await (await fetch(box.url, { headers: { Accept: 'text/html' } })).text();
  check(/<noscript>[^]*This page needs JavaScript[^]*<\/noscript>/.test(said), 'the page does not say that it needs scripts');
  equal(await plain.page.locator('form').count(), 0, 'forms without scripts');
  await plain.stop();
});
