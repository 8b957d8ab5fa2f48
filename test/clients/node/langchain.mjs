// Lists the tools of an endpoint with @langchain/mcp-adapters and calls one:
// langchain.mjs URL TOOL ARGUMENTS. Prints one JSON object.
import { MultiServerMCPClient } from '@langchain/mcp-adapters';

const [url, name, args] = process.argv.slice(2);
const client = new MultiServerMCPClient({ mcpServers: { sidecar: { transport: 'http', url } }, prefixToolNameWithServerName: false });
const tools = await client.getTools();
const tool = tools.find((t) => t.name === name);
const answer = tool ? await tool.invoke(JSON.parse(args)) : null;
console.log(JSON.stringify({ tools: tools.map((t) => t.name), answer }));
await client.close();
