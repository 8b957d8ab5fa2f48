// What asked.mjs needs of the SDK's second generation.
export { Client, StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/client';
export { StdioClientTransport as Stdio } from '@modelcontextprotocol/client/stdio';
export const kinds = { elicitation: 'elicitation/create', sampling: 'sampling/createMessage', roots: 'roots/list' };
export const options = { versionNegotiation: { mode: 'auto' } };
