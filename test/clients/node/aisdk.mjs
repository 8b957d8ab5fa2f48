// Lists the tools of an endpoint with @ai-sdk/mcp and calls one:
// aisdk.mjs URL TOOL ARGUMENTS. Prints one JSON object.
import { createMCPClient } from '@ai-sdk/mcp';

const [url, name, args] = process.argv.slice(2);
const client = await createMCPClient({ transport: { type: 'http', url } });
const tools = await client.tools();
const answer = tools[name] ? await tools[name].execute(JSON.parse(args), { toolCallId: '1', messages: [] }) : null;
console.log(JSON.stringify({ tools: Object.keys(tools), answer }));
await client.close();
