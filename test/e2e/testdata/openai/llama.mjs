// What OpenAI's own client hears of a language model: llama.mjs FOLDER-OF-NODE_MODULES URL MODEL EXPECTED. EXPECTED is JSON: the
// text, the tokens of the prompt and those of the text, of a conversation and of a completion.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, url, model, expected] = process.argv.slice(2);
const want = JSON.parse(expected);
const { default: OpenAI } = await import(pathToFileURL(createRequire(folder + '/').resolve('openai')).href);
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });

const models = await client.models.list();
assert(models.data.some((m) => m.id === model), JSON.stringify(models.data));

const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'abc' }];
const asks = {
  chat: (more) => client.chat.completions.create({ model, messages, max_tokens: want.chat.tokens, temperature: 0, ...more }),
  completion: (more) =>
    client.completions.create({ model, prompt: 'hello w', max_tokens: want.completion.tokens, temperature: 0, ...more }),
};
for (const [name, ask] of Object.entries(asks)) {
  const { text, prompt, tokens } = want[name];
  const usage = { prompt_tokens: prompt, completion_tokens: tokens, total_tokens: prompt + tokens };

  const whole = await ask({});
  assert.equal(whole.choices[0].message?.content ?? whole.choices[0].text, text, name);
  assert.equal(whole.choices[0].finish_reason, 'length', name);
  assert.deepEqual(whole.usage, usage, name);

  const pieces = [];
  let told, reason;
  for await (const chunk of await ask({ stream: true, stream_options: { include_usage: true } })) {
    for (const choice of chunk.choices) {
      pieces.push(choice.delta?.content ?? choice.text ?? '');
      reason = choice.finish_reason ?? reason;
    }
    told = chunk.usage ?? told;
  }
  assert.equal(pieces.join(''), text, name);
  assert(pieces.length > 5, JSON.stringify(pieces));
  assert.equal(reason, 'length', name);
  assert.deepEqual(told, usage, name);
}
console.log('all is well');
