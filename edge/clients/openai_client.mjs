// Checks a model server with the official `openai` package for Node: npm install openai; node openai_client.mjs URL MODEL
// [--mock]. URL ends in /v1. With --mock the server is the example `mock_model_server`, whose answers are known.

import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [url, model, ...flags] = process.argv.slice(2);
if (!url || !model) {
  console.error('usage: node openai_client.mjs URL MODEL [--mock]');
  process.exit(2);
}
const client = new OpenAI({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 120_000 });
const user = (content) => [{ role: 'user', content }];
const rejects = (promise, kind, code) =>
  assert.rejects(promise, (error) => error instanceof kind && error.code === code && error.message.length > 0);

const checks = {
  async chat() {
    const answer = await client.chat.completions.create({ model, messages: user('Say hi.'), max_tokens: 4, temperature: 0 });
    assert.equal(answer.choices[0].message.role, 'assistant');
    assert.ok(['stop', 'length'].includes(answer.choices[0].finish_reason));
    assert.ok(answer.usage.completion_tokens <= 4);
  },
  async chatStream() {
    const options = { stream: true, stream_options: { include_usage: true } };
    const stream = await client.chat.completions.create({ model, messages: user('Say hi.'), max_tokens: 4, ...options });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.ok(chunks.at(-1).usage.total_tokens > 0);
  },
  async abortedStream() {
    const stream = await client.chat.completions.create({ model, messages: user('Count to a hundred.'), stream: true });
    for await (const chunk of stream) {
      assert.ok(chunk.id);
      break;
    }
    stream.controller.abort();
  },
  async completions() {
    const answer = await client.completions.create({ model, prompt: ['One', 'Two'], max_tokens: 2, logprobs: 1 });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1]);
    assert.equal(answer.choices[0].logprobs.tokens.length, 2);
  },
  async models() {
    assert.equal((await client.models.retrieve(model)).id, model);
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    assert.ok(ids.includes(model));
  },
  async errors() {
    await rejects(client.chat.completions.create({ model, messages: user('a'), top_p: 7 }), OpenAI.BadRequestError, 'invalid_value');
    await rejects(client.chat.completions.create({ model: 'none', messages: user('a') }), OpenAI.NotFoundError, 'model_not_found');
  },
};

const mockChecks = {
  async tools() {
    const messages = user('say:Look.<tool_call>{"name": "f", "arguments": {"q": 1}}</tool_call>');
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }];
    const stream = client.chat.completions.stream({ model, messages, tools });
    const message = await stream.finalMessage();
    assert.equal(message.tool_calls[0].function.arguments, '{"q":1}');
    assert.equal(message.content, 'Look.');
  },
  async embeddings() {
    const answer = await client.embeddings.create({ model, input: ['ab', 'c'] });
    assert.deepEqual(answer.data[0].embedding, [2, 97 / 256, 0.5, -1]);
  },
  async errorsOfTheModel() {
    await rejects(client.chat.completions.create({ model, messages: user('busy') }), OpenAI.RateLimitError, 'rate_limit_exceeded');
    await rejects(client.chat.completions.create({ model, messages: user('fail') }), OpenAI.InternalServerError, 'model_failed');
    const stream = await client.chat.completions.create({ model, messages: user('break'), stream: true });
    await assert.rejects(async () => { for await (const _ of stream); }, /the device went away/);
  },
};

console.log(`openai for Node against ${url}, model ${model}`);
let failed = 0;
for (const [name, check] of Object.entries({ ...checks, ...(flags.includes('--mock') ? mockChecks : {}) })) {
  try {
    await check();
    console.log(`  ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`  FAILED  ${name}: ${error}`);
  }
}
process.exit(failed ? 1 : 0);
