// Checks a model server with Vercel's AI SDK: npm install ai @ai-sdk/openai-compatible; node ai_sdk_client.mjs URL MODEL
// [--mock]. URL ends in /v1. With --mock the server is the example `mock_model_server`, whose answers are known.

import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, jsonSchema, streamText, tool } from 'ai';

const [url, name, ...flags] = process.argv.slice(2);
if (!url || !name) {
  console.error('usage: node ai_sdk_client.mjs URL MODEL [--mock]');
  process.exit(2);
}
const provider = createOpenAICompatible({ name: 'legwork', baseURL: url, includeUsage: true });
const model = provider(name);
const settings = { model, maxRetries: 0 };

const checks = {
  async text() {
    const { text, usage, finishReason } = await generateText({ ...settings, prompt: 'Say hi.', maxOutputTokens: 4 });
    assert.ok(text.length > 0 && ['stop', 'length'].includes(finishReason));
    assert.ok(usage.outputTokens > 0 && usage.outputTokens <= 4);
  },
  async stream() {
    const answer = streamText({ ...settings, prompt: 'Say hi.', maxOutputTokens: 4 });
    let text = '';
    for await (const piece of answer.textStream) text += piece;
    assert.ok(text.length > 0 && (await answer.usage).outputTokens > 0);
  },
  async errors() {
    const asked = generateText({ ...settings, prompt: 'a', topP: 7 });
    await assert.rejects(asked, (error) => error.statusCode === 400 && error.message.includes('`top_p`'));
  },
};

const mockChecks = {
  async tools() {
    const f = tool({ description: 'f', inputSchema: jsonSchema({ type: 'object', properties: { q: { type: 'number' } } }) });
    const prompt = 'say:<tool_call>{"name": "f", "arguments": {"q": 1}}</tool_call>';
    const { toolCalls, finishReason } = await generateText({ ...settings, prompt, tools: { f } });
    assert.deepEqual([toolCalls[0].toolName, toolCalls[0].input, finishReason], ['f', { q: 1 }, 'tool-calls']);
    const streamed = streamText({ ...settings, prompt, tools: { f } });
    assert.equal((await streamed.toolCalls)[0].toolName, 'f');
  },
  async reasoning() {
    const providerOptions = { legwork: { separate_reasoning: true } };
    const prompt = 'say:<think>\nhm\n</think>\n\nyes';
    const { text, reasoningText } = await generateText({ ...settings, prompt, providerOptions });
    assert.deepEqual([text, reasoningText], ['yes', 'hm']);
  },
  async embeddings() {
    const { embeddings } = await embedMany({ model: provider.embeddingModel(name), values: ['ab', 'c'], maxRetries: 0 });
    assert.deepEqual(embeddings[0], [2, 97 / 256, 0.5, -1]);
  },
};

console.log(`the AI SDK against ${url}, model ${name}`);
let failed = 0;
for (const [title, check] of Object.entries({ ...checks, ...(flags.includes('--mock') ? mockChecks : {}) })) {
  try {
    await check();
    console.log(`  ok      ${title}`);
  } catch (error) {
    failed += 1;
    console.log(`  FAILED  ${title}: ${error}`);
  }
}
process.exit(failed ? 1 : 0);
