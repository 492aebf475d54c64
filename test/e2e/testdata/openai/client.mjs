// What OpenAI's own client does with a box: client.mjs FOLDER-OF-NODE_MODULES URL MODEL.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, url, model] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(createRequire(folder + '/').resolve('openai')).href);
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });

const models = await client.models.list();
assert(models.data.some((m) => m.id === model && m.object === 'model'), JSON.stringify(models.data));
const one = await client.models.retrieve(model);
assert.equal(one.id, model);
assert.equal(one.owned_by, 'edgewise');

const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'one two three' }];
const whole = await client.chat.completions.create({ model, messages, max_tokens: 20 });
assert.equal(whole.object, 'chat.completion');
const text = whole.choices[0].message.content;
assert.equal(text, 'system=Be brief. user=one two three assistant=');
assert.equal(whole.choices[0].finish_reason, 'stop');
assert.deepEqual(whole.usage, { prompt_tokens: 6, completion_tokens: 6, total_tokens: 12 });

const stream = await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } });
const pieces = [];
let usage, reason;
for await (const chunk of stream) {
  if (chunk.choices.length > 0) {
    pieces.push(chunk.choices[0].delta.content ?? '');
    reason = chunk.choices[0].finish_reason ?? reason;
  }
  usage = chunk.usage ?? usage;
}
assert.equal(pieces.join(''), text);
assert(pieces.length >= 6, JSON.stringify(pieces));
assert.equal(reason, 'stop');
assert.equal(usage.total_tokens, 12);

const short = await client.completions.create({ model, prompt: 'a b c d', max_tokens: 2, stop: ['x'] });
assert.equal(short.choices[0].text, 'a b ');
assert.equal(short.choices[0].finish_reason, 'length');

// A client that stops reading cancels its request.
const endless = await client.completions.create({ model, prompt: 'forever', stream: true });
let seen = 0;
for await (const chunk of endless) {
  assert(chunk.choices[0].text.length > 0);
  if (++seen === 5) break;
}
assert.equal(seen, 5);

const wrong = await client.chat.completions.create({ model: 'none', messages }).catch((error) => error);
assert(wrong instanceof OpenAI.NotFoundError, String(wrong));
assert.equal(wrong.code, 'model_not_found');
const tools = await client.chat.completions.create({ model, messages, n: 2 }).catch((error) => error);
assert(tools instanceof OpenAI.BadRequestError && tools.param === 'n', String(tools));
const broken = await client.completions.create({ model, prompt: 'ok break', stream: true });
await assert.rejects(async () => {
  for await (const chunk of broken) assert.equal(chunk.choices[0].text, 'ok ');
}, /broken on purpose/);
console.log('all is well');
