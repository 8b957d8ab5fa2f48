package field

import "testing"

// TestProjects is what was reported to single projects, by project and issue.
func TestProjects(t *testing.T) {
	run(t, projectNumbers, projectRows)
}

const projectNumbers = "agentgateway#742 agentgateway#495 agentgateway#3622 agentgateway#2982 agentgateway#2564 agentgateway#882 agentgateway#221 agentgateway#721 " +
	"agentgateway#573 agentgateway#754 agentgateway#1222 agentgateway#464 " +
	"docker#567 docker#228 docker#11 docker#581 docker#334 docker#483 docker#197 docker#346 docker-desktop#285 docker#186 " +
	"context-forge#4202 context-forge#4135 context-forge#4042 context-forge#1258 context-forge#176 context-forge#6275 context-forge#5484 context-forge#2706 " +
	"context-forge#1046 context-forge#208 context-forge#2322 context-forge#4275 context-forge#1025 " +
	"metamcp#162 metamcp#128 metamcp#324 metamcp#318 metamcp#140 metamcp#283 metamcp#135 metamcp#247 metamcp#273 metamcp#123 " +
	"mcpproxy-go#1013 mcpproxy-go#354 mcpproxy-go#240 mcpproxy-go#712 mcpproxy-go#937 mcpproxy-go#432 mcpproxy-go#447 mcpproxy-go#38 mcpproxy-go#86 mcpproxy-go#46 mcpproxy-go#48 " +
	"toolhive#5861 toolhive#3062 toolhive#2785 toolhive#2114 toolhive#2986 toolhive#5387 toolhive#5504 toolhive#6130 toolhive#4575 toolhive#1613 toolhive#1614 " +
	"toolhive#5756 toolhive#5911 toolhive#5912 toolhive#6059 toolhive#5857 " +
	"Kuadrant#1382 Kuadrant#1419 Kuadrant#1436 Kuadrant#150 Kuadrant#630 Kuadrant#281 Kuadrant#422 Kuadrant#600 Kuadrant#813 " +
	"envoy#1924 envoy#1958 envoy#1560 envoy#1364 envoy#1915 envoy#2056 envoy#1484 envoy#1925 envoy#1724 " +
	"obot#6429 obot#7129 obot#5665 obot#7694 obot#4860 obot#4796 obot#4797 obot#5273 " +
	"MCPJungle#252 MCPJungle#138 MCPJungle#268 MCPJungle#128 MCPJungle#235 MCPJungle#254 MCPJungle#99 MCPJungle#6 1MCP#188 1MCP#392 1MCP#409 " +
	"supergateway#108 supergateway#139 supergateway#141 supergateway#177 supergateway#143 supergateway#123 supergateway#148 " +
	"TBXark#46 TBXark#53 TBXark#37 TBXark#43 TBXark#6 TBXark#12 mcp-remote#124 mcp-remote#136 " +
	"hermes#50170 hermes#19559 hermes#30268 hermes#64073 hermes#91670 hermes#91654 hermes#105396 hermes#16764 hermes#64587 hermes#67131 hermes#14927 " +
	"hermes#9075 hermes#118572 hermes#115502 hermes#112280 hermes#91426 hermes#91427"

var projectRows = []row{
	{ids: "agentgateway#742", by: "TestHermes/43984"},
	{ids: "agentgateway#495", name: "names_do_not_depend_on_the_others", test: stableNames},
	{ids: "agentgateway#3622 metamcp#283 toolhive#2785 toolhive#2114 Kuadrant#813 hermes#91670", by: "TestHermes/13383"},
	{ids: "agentgateway#2982 context-forge#5484 toolhive#5756 toolhive#5911 toolhive#5912 toolhive#6059 Kuadrant#1436", by: "TestField/R12"},
	{ids: "agentgateway#2564", later: "a name and title of one's own: with profiles"},
	{ids: "agentgateway#882", by: "test/clients.TestGoSDK"},
	{ids: "agentgateway#221 envoy#1958 envoy#1925", by: "TestField/R37"},
	{ids: "agentgateway#721", later: "rules over methods and arguments: with policy"},
	{ids: "agentgateway#573 agentgateway#754 agentgateway#1222 toolhive#4575", later: "sessions over several replicas: with Kubernetes"},
	{ids: "agentgateway#464", name: "initialized_comes_first", test: initializedFirst},

	{ids: "docker#567 docker#11 docker#581 toolhive#1613 toolhive#1614", by: "TestField/R34"},
	{ids: "toolhive#5857", name: "what_is_listed_is_served", test: promptsAndTemplates},
	{ids: "docker#228 obot#6429", by: "TestField/R5"},
	{ids: "docker#334", later: "redaction: with policy"},
	{ids: "docker#483 metamcp#162 metamcp#128 metamcp#273 supergateway#108 supergateway#141", by: "TestField/R10"},
	{ids: "docker#197", by: "upstream.TestTokensTrouble"},
	{ids: "docker#346 docker#186 envoy#1484", name: "one_endpoint_per_server", test: perServerEndpoints},
	{ids: "docker-desktop#285", by: "TestHermes/37792"},

	{ids: "context-forge#4202 context-forge#4135 context-forge#4042 hermes#9075", by: "TestField/R29"},
	{ids: "context-forge#1258 context-forge#176", by: "TestField/R31"},
	{ids: "context-forge#6275 metamcp#318", by: "TestField/R30"},
	{ids: "context-forge#2706", later: "metadata of our own: with callers by JWT"},
	{ids: "context-forge#1046 context-forge#208", by: "TestField/R11", later: "a list of headers that may pass is not planned"},
	{ids: "context-forge#2322", by: "TestField/R2"},
	{ids: "context-forge#4275", name: "both_spellings_without_redirect", test: chunked},
	{ids: "context-forge#1025 mcpproxy-go#354", by: "TestHermes/57129"},

	{ids: "metamcp#324", by: "TestHermes/103746"},
	{ids: "toolhive#3062 MCPJungle#138 MCPJungle#268", name: "processes_of_their_own", test: ownProcesses},
	{ids: "metamcp#140 toolhive#5861 1MCP#392 1MCP#409", by: "TestField/R18"},
	{ids: "metamcp#135", by: "upstream.TestHTTPEndlessBody"},
	{ids: "metamcp#247", later: "arguments that are set for the agent: with policy"},
	{ids: "metamcp#123", name: "lists_itself", test: itself},

	{ids: "mcpproxy-go#1013", by: "TestField/R17"},
	{ids: "mcpproxy-go#240 Kuadrant#150", later: withReload},
	{ids: "mcpproxy-go#712", by: "TestField/R44"},
	{ids: "mcpproxy-go#937", later: "admission of changed tools: with pins"},
	{ids: "mcpproxy-go#432 mcpproxy-go#447", by: "TestField/R4"},
	{ids: "mcpproxy-go#38", name: "lost_connection", test: lostConnection},
	{ids: "mcpproxy-go#86", later: "there is no user interface"},
	{ids: "mcpproxy-go#46 mcpproxy-go#48", by: "TestHermes/34186"},

	{ids: "toolhive#2986", by: "upstream.TestSSEFallback"},
	{ids: "toolhive#5387", name: "identity_is_of_the_request", test: otherCaller},
	{ids: "toolhive#5504 MCPJungle#252", by: "TestField/R11"},
	{ids: "toolhive#6130", name: "log_levels", test: logLevels},

	{ids: "Kuadrant#1382 envoy#1924 mcp-remote#136", by: "TestField/R6"},
	{ids: "Kuadrant#1419", by: "upstream.TestKeepalive"},
	{ids: "Kuadrant#630 supergateway#148", by: "proxy.TestSessionLimit"},
	{ids: "Kuadrant#281", by: "upstream.TestHTTPStaleConnection"},
	{ids: "Kuadrant#422", name: "cancelled_while_asked", test: askedAndCancelled},
	{ids: "Kuadrant#600", name: "progress_of_each", test: eachItsProgress},

	{ids: "envoy#1560", by: "test/hermes.TestLine07LostSession"},
	{ids: "envoy#1364 envoy#1724", by: "TestHermes/43984"},
	{ids: "envoy#1915 TBXark#6 TBXark#12", by: "TestField/R1"},
	{ids: "envoy#2056", later: "with Kubernetes"},

	{ids: "obot#7129 obot#7694 obot#4860 obot#4796 obot#4797 obot#5273 MCPJungle#128", by: "upstream.TestTokensNeedLogin"},
	{ids: "obot#5665", by: "auth/oauth.TestConfiguredClient"},
	{ids: "MCPJungle#235 MCPJungle#254 hermes#91426 hermes#91427", later: "credentials and identity of each caller: with callers"},
	{ids: "MCPJungle#99", later: "groups of servers: with profiles"},
	{ids: "MCPJungle#6", by: "auth.TestIdentify"},
	{ids: "1MCP#188", later: "tools on demand: with expose"},

	{ids: "supergateway#139", by: "TestField/R39"},
	{ids: "supergateway#177", by: "TestField/R40"},
	{ids: "supergateway#143", by: "proxy.TestDisconnect"},
	{ids: "supergateway#123 TBXark#43", later: "reported without a symptom that could be replayed"},
	{ids: "TBXark#46", by: "TestField/R19"},
	{ids: "TBXark#53", by: "TestHermes/12865"},
	{ids: "TBXark#37", by: "config.TestActive"},
	{ids: "mcp-remote#124", by: "egress.TestNoProxy"},

	{ids: "hermes#50170 hermes#30268 hermes#64073", by: "upstream.TestKeepalive"},
	{ids: "hermes#19559", by: "TestHermes/19559"},
	{ids: "hermes#91654 hermes#105396", later: "with profiles"},
	{ids: "hermes#16764 hermes#115502", name: "burst_of_changes", test: burst},
	{ids: "hermes#64587 hermes#67131 hermes#14927", name: "odd_schemas_stay", test: schemasStay},
	{ids: "hermes#118572", by: "TestField/R9"},
	{ids: "hermes#112280", by: "egress.TestNoProxy"},
}
