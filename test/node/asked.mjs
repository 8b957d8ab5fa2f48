// Calls tools with a client of the MCP TypeScript SDK that answers what servers ask
// meanwhile: asked.mjs CLIENT CALLS http URL, or asked.mjs CLIENT CALLS stdio COMMAND
// ARGUMENT... CLIENT is v1 (package sdk, MCP 2025-11-25) or v2 (package client, MCP
// 2026-07-28), CALLS a JSON list of {name, arguments}. Prints one JSON object.
const [generation, calls, how, target, ...args] = process.argv.slice(2);
const { Client, Http, Stdio, kinds, options } = await import(`./asked.${generation}.mjs`);

const transport = how === 'http' ? new Http(new URL(target)) : new Stdio({ command: target, args });
const client = new Client({ name: 'asked', version: '1' }, { capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} }, ...options });
const asked = [];
client.setRequestHandler(kinds.elicitation, ({ params }) => {
  asked.push(params.message);
  return params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { answer: 'Ada', name: 'Ada' } };
});
client.setRequestHandler(kinds.sampling, ({ params }) => {
  asked.push(params.messages[0].content.text);
  return { role: 'assistant', model: 'm', content: { type: 'text', text: 'said by the client' }, stopReason: 'endTurn' };
});
client.setRequestHandler(kinds.roots, () => ({ roots: [{ uri: 'file:///home/ada/client', name: 'w' }] }));
await client.connect(transport);
const { tools } = await client.listTools();
const answers = [];
for (const call of JSON.parse(calls)) answers.push(await client.callTool(call));
const version = client.getNegotiatedProtocolVersion?.() ?? '';
console.log(JSON.stringify({ version, tools: tools.map((t) => t.name), answers, asked }));
await client.close();
