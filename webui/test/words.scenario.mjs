// What people and models call things stands there as they wrote it: it never becomes a part of the page.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { equal, scenario } from './harness.mjs';
import { times } from './onnx.mjs';

const evil = (what) => `<img src=x onerror=top.hit=1>${what}`;

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/status of 400/);
  const { page } = visitor;
  await admin.call('PATCH', '/settings', { name: evil('box') });
  await visitor.login();
  /** A page shows some of the words, and none of them has become an element or a script. */
  const shows = async (...words) => {
    for (const w of words) await page.getByText(evil(w)).first().waitFor();
    equal(await page.evaluate(() => [document.querySelectorAll('img[src="x"]').length, window.hit ?? 0]), [0, 0], `pictures and scripts that came of words at ${page.url()}`);
  };
  await shows('box');

  const base = mkdtempSync(join(tmpdir(), 'edgewise-words-'));
  const file = join(base, evil('file') + '.onnx');
  writeFileSync(file, times(2, false, evil('x'), evil('y')));
  await visitor.open('/models', 'Models');
  await page.locator('#choose-file').setInputFiles(file);
  await page.getByText('Ready to activate').waitFor();
  await shows('file', 'x', 'y');
  await page.getByLabel('Name').fill('words');
  await page.getByLabel('Notes').fill(evil('notes'));
  await page.getByRole('button', { name: 'Activate' }).click();
  await page.getByRole('link', { name: 'Try words' }).waitFor();
  await admin.call('PATCH', '/models/words', { notes: evil('about') });

  await visitor.open('/models/words', 'words');
  await shows('x', 'y', 'notes', 'about');
  await visitor.open('/models/words/versions', 'words');
  await shows('notes');
  await visitor.open('/models/words/graph', 'words');
  await shows('x', 'y');
  await visitor.open('/models/words/try', 'words');
  await page.getByRole('textbox', { name: evil('x') }).fill('[1, 2]');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('alert').waitFor(); // it names the input
  await shows('x');
  await page.getByRole('textbox', { name: evil('x') }).fill('[[1, 2, 3, 4]]');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('region', { name: `Output ${evil('y')}` }).waitFor();
  await shows('x', 'y');

  const draft = await admin.call('POST', '/drafts', { name: 'chain', config: {} });
  await visitor.open(`/ensembles/${draft.id}`, 'chain');
  await page.getByRole('button', { name: 'List' }).click();
  await page.getByRole('combobox', { name: 'Add a step' }).fill('words');
  await page.getByRole('option', { name: 'words' }).first().waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^1\. words/ }).waitFor();
  await shows('x', 'y');
  await page.getByRole('button', { name: 'Graph' }).click();
  await shows('x', 'y');
  await visitor.open('/activity/requests', 'Activity');
  await page.getByText('Queue', { exact: true }).first().waitFor();
  await shows('box');
  await visitor.open('/activity/logs', 'Activity');
  await page.getByRole('log').getByText('version ready').first().waitFor();
  await shows('box');
  rmSync(base, { recursive: true, force: true });
});
