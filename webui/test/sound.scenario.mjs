// A model that listens: asked with a file, and with the microphone; and one that sounds.
import { Visitor, check, drop, equal, everyWidth, press, sample, scenario, type, until } from './harness.mjs';
import { tone } from './onnx.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/models/speech/try', 'speech');
  await page.getByRole('button', { name: 'Sound', exact: true }).click();
  await drop(page, page.locator('.drop'), [sample('speech.wav')]);
  await page.locator('audio').waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  const start = page.getByRole('region', { name: 'Output start' });
  await start.getByRole('cell', { name: '0.9300' }).waitFor();
  await page.getByLabel('The call in curl').getByText('speech.wav').waitFor();

  // The browser's stand-in for a microphone beeps: the box answers, whatever it makes of that.
  await page.getByRole('button', { name: 'Record' }).click();
  const dialog = page.getByRole('dialog', { name: 'Record a sound' });
  await dialog.getByRole('button', { name: 'Record', exact: true }).click();
  await dialog.getByText('1 s').waitFor();
  await page.keyboard.press('Escape');
  await page.waitForTimeout(500);
  equal(await page.getByText('recording', { exact: true }).count(), 0, 'recordings that were given up and used');
  await page.getByRole('button', { name: 'Record' }).click();
  await dialog.getByRole('button', { name: 'Record', exact: true }).click();
  await dialog.getByText('2 s').waitFor();
  await dialog.getByRole('button', { name: 'Stop and use it' }).click();
  await page.getByText('recording', { exact: true }).waitFor();
  const before = await page.getByText(/round trip/).innerText();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await until('another answer', async () => (await page.getByText(/round trip/).innerText()) !== before);
  equal(await page.getByRole('alert').count(), 0, 'complaints about the recording');
  check(await start.isVisible(), 'the answer is not shown');

  const problems = await everyWidth(page, 'the answer to a sound');

  // An answer that is a sound is a waveform, and can be heard. By keyboard alone.
  const pushed = await admin.fetch('/api/v1/models/beep/versions?promote=true&file=model.onnx', { method: 'POST', body: tone(), headers: { 'Content-Type': 'application/octet-stream' } });
  check(pushed.ok, `pushing: ${await pushed.text()}`);
  await visitor.open('/models/beep/try', 'beep');
  await type(page.getByRole('textbox', { name: 'x', exact: true }), '[[1, 0, 0, 0]]');
  await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  const audio = page.getByRole('region', { name: 'Output audio' });
  await audio.getByRole('img').waitFor();
  equal(await audio.getAttribute('data-view'), 'wave', 'how a sound is drawn');
  check(new Set((await audio.locator('svg path').getAttribute('d')).match(/V[\d.]+/g)).size > 20, 'the waveform is flat');
  problems.push(...(await everyWidth(page, 'a waveform')));
  equal(problems, [], 'what axe found');

  // Who says no to the browser is told what to do.
  const shy = await Visitor.start(box, { browser: visitor.browser, context: { permissions: [], storageState: await visitor.context.storageState() } });
  await shy.context.addInitScript(() => { navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError')); });
  await shy.open('/models/speech/try', 'speech');
  await shy.page.getByRole('button', { name: 'Sound', exact: true }).click();
  await shy.page.getByRole('button', { name: 'Record' }).click();
  await shy.page.getByRole('dialog').getByRole('button', { name: 'Record', exact: true }).click();
  await shy.page.getByText(/microphone cannot be used/).waitFor();
  await shy.stop();
});
