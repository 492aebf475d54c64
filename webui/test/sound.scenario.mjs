// A model that listens: asked with a file, and with the microphone.
import { Visitor, check, equal, sample, scenario, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  await box.claim();
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/models/speech/try', 'speech');
  await page.getByRole('button', { name: 'Sound', exact: true }).click();
  await page.locator('input[type=file]').setInputFiles(sample('speech.wav'));
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
