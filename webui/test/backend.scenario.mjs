// Models of backends that are other programs: Python models dropped with their configuration, as a folder in Triton's layout and on the
// page of their model; one that is broken, with its file and line, and one whose backend the box lacks; tried, read in the log,
// rolled back; a model that writes until it is stopped; the list of backends. By keyboard alone but for the drops.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, drop, equal, everyWidth, press, scenario, type, until } from './harness.mjs';

const adder = (n, more = '') => `import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.Logger.log_info("adds ${n}")
${more}
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy() + ${n})]) for r in requests]
`;
const signature = 'input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput [ { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] } ]\n';
const doubler = `import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "TWICE", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("TWICE", 2 * pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
`;
const text = 'input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]\noutput [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]\nmodel_transaction_policy { decoupled: true }\nparameters { key: "openai" value { string_value: "true" } }\n';
const writer = `import time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            word = pb_utils.get_input_tensor_by_name(r, "text_input").as_numpy()[0].decode()
            n = 0
            while not sender.is_cancelled() and not (word == "three" and n == 3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([f"{word}{n} "], object))]))
                n += 1
                time.sleep(0.02)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`;

export default () => scenario({}, async (box, visitor) => {
  await box.claim();
  visitor.allow(/status of (400|409|422)/);
  const { page } = visitor;
  const base = mkdtempSync(join(tmpdir(), 'edgewise-backend-'));
  const file = (path, body) => { mkdirSync(join(base, path, '..'), { recursive: true }); writeFileSync(join(base, path), body); return join(base, path); };
  const main = page.getByRole('main');
  const job = (name) => page.getByRole('article', { name: `Job of ${name}` });
  const problems = [];
  await visitor.login();

  // A model.py and its configuration are one model, of the name that stands in it; any other program is none.
  await visitor.open('/models', 'Models');
  await drop(page, main, [file('one/model.py', adder(1)), file('one/config.pbtxt', `name: "adder"\nbackend: "python"\n${signature}`), file('one/train.sh', 'true')]);
  await page.getByText('train.sh is not a file that the box accepts').waitFor();
  await job('adder.tar').getByText('Model of the backend python').waitFor();
  problems.push(...(await everyWidth(page, 'an upload of a Python model')));
  await press(job('adder.tar').getByRole('button', { name: 'Activate' }), 'Enter');
  await press(job('adder.tar').getByRole('link', { name: 'Try adder' }), 'Enter');
  await type(page.getByRole('textbox', { name: 'X' }), '1, 2, 3, 4');
  await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  await page.getByRole('region', { name: 'Output Y' }).getByText('5', { exact: true }).first().waitFor();

  await page.getByText('Version 1 is not verified.').waitFor({ state: 'hidden' }); // the answer has shown that it works

  // What its program writes stands on its page.
  await press(page.getByRole('navigation', { name: 'About adder' }).getByRole('link', { name: 'Overview' }), 'Enter');
  await page.getByRole('log', { name: 'Log of version 1' }).getByText('adds 1').waitFor();
  equal(await page.getByRole('link', { name: 'Graph' }).count(), 0, 'tabs of a graph that there is not');
  problems.push(...(await everyWidth(page, 'a Python model')));

  const facts = page.getByRole('region', { name: 'Version 1', exact: true });
  for (const what of ['python', 'model.py', /^Python 3.*NumPy/]) await facts.getByText(what, { exact: true }).first().waitFor();

  // A mistake is named with its file and line, and the version before goes on.
  await drop(page, main, [file('two/model.py', adder(2, '        retrun 1')), file('two/config.pbtxt', `backend: "python"\n${signature}`)]);
  const broken = job('model.tar');
  await until('the broken version to be refused', async () => {
    const activate = broken.getByRole('button', { name: 'Activate' });
    if (await activate.isVisible()) await press(activate, 'Enter');
    return broken.getByText(/SyntaxError.*model\.py, line 6/).first().isVisible();
  });
  problems.push(...(await everyWidth(page, 'a Python model with a mistake')));
  await press(broken.getByRole('button', { name: 'Discard' }), 'Enter');
  await page.getByText('model.tar', { exact: true }).waitFor({ state: 'hidden' });

  // The next version in Triton's layout, and the way back.
  file('adder/config.pbtxt', `name: "adder"\nbackend: "python"\n${signature}`);
  file('adder/7/model.py', adder(10));
  await drop(page, main, [join(base, 'adder')]);
  await press(job('adder.tar').getByRole('button', { name: 'Activate' }), 'Enter');
  await page.getByRole('log', { name: /Log of version/ }).getByText('adds 10').waitFor();
  await press(page.getByRole('button', { name: 'Roll back' }).first(), 'Enter');
  await press(page.getByRole('dialog').getByRole('button', { name: /^Roll back|^Go back/ }), 'Enter');
  await page.getByRole('log', { name: 'Log of version 1' }).waitFor();

  // A model that says itself what it takes needs no configuration: the page shows what it has said.
  await visitor.open('/models', 'Models');
  await drop(page, main, [file('doubler.py', doubler)]);
  const complete = job('doubler.py');
  for (const what of ['TWICE', 'Model of the backend python, model.py', 'up to 4 elements in a batch']) await complete.getByText(what).waitFor();
  await press(complete.getByRole('button', { name: 'Activate' }), 'Enter');
  await press(complete.getByRole('link', { name: 'Try doubler' }), 'Enter');
  await press(page.getByRole('navigation', { name: 'About doubler' }).getByRole('link', { name: 'Configuration' }), 'Enter');
  await press(page.getByText('The complete configuration'), 'Enter');
  await page.getByRole('region', { name: 'The complete configuration' }).getByText('"TWICE"').waitFor();
  problems.push(...(await everyWidth(page, 'a completed configuration')));

  // A backend that the box lacks is named, with where it is looked for.
  await visitor.open('/models', 'Models');
  file('plan/config.pbtxt', `name: "plan"\nbackend: "tensorrt"\n${signature}`);
  file('plan/1/model.plan', 'a plan');
  await drop(page, main, [join(base, 'plan')]);
  await job('plan.tar').getByText(/backend "tensorrt" is not served by this box, which has .*python.*looked for in .*lib\/backends/).first().waitFor();
  await press(job('plan.tar').getByRole('button', { name: 'Discard' }), 'Enter');

  // A text model writes as it goes, to its end or until it is stopped.
  await drop(page, main, [file('poet/model.py', writer), file('poet/config.pbtxt', `name: "poet"\nbackend: "python"\n${text}`)]);
  await press(job('poet.tar').getByRole('button', { name: 'Activate' }), 'Enter');
  await press(job('poet.tar').getByRole('link', { name: 'Try poet' }), 'Enter');
  const run = page.getByRole('button', { name: 'Run', exact: true });
  await type(page.getByRole('textbox', { name: 'text_input' }), 'three');
  await press(run, 'Enter');
  await page.getByRole('group', { name: 'Output text_output' }).getByText('three0 three1 three2').waitFor();
  await page.getByText(/^3 responses in .*, the first after /).waitFor();
  await type(page.getByRole('textbox', { name: 'text_input' }), 'on');
  await press(run, 'Enter');
  await page.getByRole('group', { name: 'Output text_output' }).getByText('on0 on1 on2 on3').waitFor();
  problems.push(...(await everyWidth(page, 'a stream of text')));
  await press(page.getByRole('button', { name: 'Stop', exact: true }), 'Enter');
  await page.getByText(/responses in .*, stopped/).waitFor();
  await run.waitFor();
  await press(run, 'Enter'); // the one that was stopped has ended, or this one would wait for it without end
  await page.getByRole('group', { name: 'Output text_output' }).getByText('on0 on1 on2 on3').waitFor();
  await press(page.getByRole('button', { name: 'Stop', exact: true }), 'Enter');

  await press(page.getByRole('group', { name: 'Language' }).getByRole('button', { name: 'OpenAI', exact: true }), 'Enter');
  await page.getByLabel('The call in OpenAI').getByText('client.chat.completions.create').waitFor();

  await visitor.open('/models', 'Models');
  for (const name of ['adder', 'doubler', 'poet']) await page.getByRole('region', { name: 'All models' }).getByRole('row', { name }).getByText('python', { exact: true }).waitFor();

  await visitor.open('/settings/system', 'Settings');
  const python = page.getByRole('region', { name: 'Backends' }).getByRole('listitem', { name: 'python' });
  for (const what of ['Usable', 'python (model.py)', 'no network']) await python.getByText(what).waitFor();
  problems.push(...(await everyWidth(page, 'the backends')));
  check(problems.length === 0, problems.join('\n'));
  rmSync(base, { recursive: true, force: true });
});
