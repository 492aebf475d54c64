// The code samples of “Try it” run as they stand there: copied out of the page for models of several kinds, and run by curl, Python,
// Node.js, Mono and grpcurl, and by Triton's client where that is; their answers are those of the API. By keyboard alone.
import { execFile, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { check, choose, drop, equal, everyWidth, press, root, sample, scenario, type } from './harness.mjs';
import { times } from './onnx.mjs';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // the harness believes the box; the samples check its certificate
process.removeAllListeners('warning');

const exec = promisify(execFile);
const there = (command, ...args) => spawnSync(command, args).status === 0;
/** How each language is run: the file that it stands in, and the command. Triton's client is in no registry of Debian's, Go's or npm's. */
const languages = {
  curl: { file: 'sample.sh', command: 'bash sample.sh' },
  Python: { file: 'sample.py', command: 'python3 sample.py' },
  tritonclient: there('python3', '-c', 'import numpy, tritonclient.http') ? { file: 'triton.py', command: 'python3 triton.py' } : { file: 'triton.py', command: 'python3 -m py_compile triton.py', parsed: true },
  JavaScript: { file: 'sample.mjs', command: 'node sample.mjs' },
  'C#': { file: 'sample.cs', command: 'mcs -r:System.Net.Http.dll -out:sample.exe sample.cs && HOME=$PWD mono sample.exe' },
  gRPC: { file: 'grpc.sh', command: 'bash grpc.sh' },
};

/** A text model that answers each word of its prompt alone, and says so when it has ended. */
const poet = `import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "text_input", "data_type": "TYPE_STRING", "dims": [1]})
        config.add_output({"name": "text_output", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            prompt = pb_utils.get_input_tensor_by_name(r, "text_input").as_numpy()[0].decode()
            for word in prompt.split() + ["end"]:
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([word + " "], object))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`;

export default () => scenario({ tls: true, imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  const pushed = await admin.fetch('/api/v1/models/gauge/versions?promote=true&file=model.onnx', { method: 'POST', body: times(3), headers: { 'Content-Type': 'application/octet-stream' } });
  check(pushed.ok, `pushing: ${await pushed.text()}`);
  const folder = mkdtempSync(join(tmpdir(), 'edgewise-samples-'));
  const { page } = visitor;
  visitor.url = box.url.replace('127.0.0.1', 'localhost'); // Mono accepts no certificate of an IP address
  await visitor.login();
  await visitor.open('/settings/security', 'Settings');
  const download = page.waitForEvent('download');
  await press(page.getByRole('link', { name: 'Download the CA certificate' }), 'Enter');
  const authority = join(folder, 'edgewise-ca.pem');
  await (await download).saveAs(authority);
  const key = (await admin.call('POST', '/keys', { name: 'samples', rights: ['infer'], models: [], rate: 0, concurrency: 0 })).secret;
  await exec('go', ['build', '-modfile=tools.mod', '-o', join(folder, 'bin/'), 'github.com/fullstorydev/grpcurl/cmd/grpcurl'], { cwd: root });
  await exec('cert-sync', ['--user', authority], { env: { ...process.env, HOME: folder } }); // Mono has a store of certificates of its own
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}`, EDGEWISE_KEY: key, NODE_EXTRA_CA_CERTS: authority, SSL_CERT_FILE: authority };
  copyFileSync(sample('face.jpg'), join(folder, 'face.jpg'));

  /** Copies every sample that the page shows and runs it; `right` looks at what it prints. */
  const run = async (what, right, more = {}) => {
    const left = [];
    for (const [name, language] of Object.entries({ ...languages, ...more })) {
      await press(page.getByRole('group', { name: 'Language' }).getByRole('button', { name, exact: true }), 'Enter');
      writeFileSync(join(folder, language.file), await page.getByLabel(`The call in ${name}`).innerText());
      const { stdout } = await exec('bash', ['-c', language.command], { cwd: folder, env, maxBuffer: 1 << 26 }).catch((e) => { throw new Error(`${what} in ${name}: ${e.message}\n${e.stdout}`); });
      if (language.parsed) left.push(name);
      else check(right(stdout, name), `${what} in ${name} answers\n${stdout.slice(0, 2000)}`);
    }
    console.log(`${what}: all run but ${left.join(', ') || 'none'}, which is only parsed`);
  };
  const ask = async () => {
    await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
    await page.getByRole('link', { name: /^Trace of request/ }).waitFor();
  };

  // Numbers that were typed are in the samples, and so are their answers.
  await visitor.open('/models/gauge/try', 'gauge');
  await type(page.getByRole('textbox', { name: 'x', exact: true }), '[[1, 2, 3.5, -4]]');
  await ask();
  const floats = Buffer.from(Float32Array.of(3, 6, 10.5, -12).buffer).toString('base64');
  const numbers = (text) => text.match(/-?\d+(\.\d+)?/g).map(Number).join(' ');
  await run('numbers', (text, name) => (name === 'gRPC' ? text.includes(floats) : numbers(text).includes('3 6 10.5 -12')));
  const problems = await everyWidth(page, 'samples');

  // Inputs that are too long for a line: zeros of the model's shape.
  await visitor.open('/models/face/try', 'face');
  await page.getByRole('group', { name: 'Language' }).waitFor();
  const shapes = (await admin.call('GET', '/models/face/versions/1')).outputs.map((o) => o.shape.filter((d) => d > 1).join());
  await run('long inputs', (text) => text.length > 1000 || shapes.some((s) => text.includes(s)));

  // A picture is the body.
  await visitor.open('/models/faces/try', 'faces');
  await choose(page.locator('input[type=file]'), sample('face.jpg'));
  await ask();
  const boxes = (await (await admin.fetch('/v2/models/faces/infer', { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } })).json()).outputs;
  const first = String(boxes.find((o) => o.name === 'box').data[0]).slice(0, 5);
  await run('a picture', (text, name) => name === 'gRPC' || text.includes(first));

  // The responses of a decoupled model, by its own interface and by OpenAI's.
  writeFileSync(join(folder, 'poet.py'), poet);
  writeFileSync(join(folder, 'config.pbtxt'), 'parameters { key: "openai" value { string_value: "true" } }\nparameters { key: "openai_message" value { string_value: "{content} " } }');
  await visitor.open('/models', 'Models');
  await drop(page, page.getByRole('main'), [join(folder, 'poet.py'), join(folder, 'config.pbtxt')]);
  await press(page.getByRole('button', { name: 'Activate' }), 'Enter');
  await press(page.getByRole('link', { name: 'Try poet' }), 'Enter');
  await type(page.getByRole('textbox', { name: 'text_input' }), 'it\'s "so"');
  await ask();
  symlinkSync(join(root, '.cache/openai-client/node_modules'), join(folder, 'node_modules'));
  const words = ["it's", '"so"', 'end'];
  const encoded = words.map((w) => Buffer.concat([Buffer.from(Uint32Array.of(w.length + 1).buffer), Buffer.from(w + ' ')]).toString('base64'));
  const unquoted = (text) => text.replaceAll('\\"', '"');
  await run('a stream', (text, name) => words.every((w, i) => text.includes(name === 'gRPC' ? encoded[i] : w) || unquoted(text).includes(w)), {
    tritonclient: { file: 'triton.py', command: 'python3 -m py_compile triton.py', parsed: true }, // over gRPC, which it needs more packages for
    OpenAI: { file: 'openai.py', command: 'python3 -m py_compile openai.py', parsed: true }, // its client for Python is in no registry of Debian's, Go's or npm's
    'OpenAI, JavaScript': { file: 'openai.mjs', command: 'node openai.mjs' },
    'OpenAI, curl': { file: 'openai.sh', command: 'bash openai.sh' },
  });
  equal(problems, [], 'what axe found');
  rmSync(folder, { recursive: true, force: true });
});
