// What asked.mjs needs of the SDK's first generation.
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

export { Client } from '@modelcontextprotocol/sdk/client/index.js';
export { StdioClientTransport as Stdio } from '@modelcontextprotocol/sdk/client/stdio.js';
export { StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
export const kinds = { elicitation: ElicitRequestSchema, sampling: CreateMessageRequestSchema, roots: ListRootsRequestSchema };
export const options = {};
