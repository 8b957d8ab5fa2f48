package field

import "testing"

// TestField is the list of reports that came up again and again, over many
// projects. Each row names where it was reported.
func TestField(t *testing.T) {
	run(t, "R1 R2 R3 R4 R5 R6 R8 R9 R10 R11 R12 R13 R15 R16 R17 R18 R19 R21 R25 R27 R28 R29 R30 R31 R33 R34 R35 R37 R39 R40 R42 R44 R45 R47 R49 R50 R52", fieldRows)
}

var fieldRows = []row{
	// go-sdk#1236, go-sdk#1201, anthropics/claude-code#78762, cline#9589
	{ids: "R1", name: "exact_digits", test: exactDigits},
	// anthropics/claude-code#44364, PraisonAI#3111, LichtFeld#1430, aj-mcp#4
	{ids: "R2", name: "null_schemas", test: nullSchemas},
	// typescript-sdk#1175, stitch#13, anthropics/claude-code#76040, MiMo#1652
	{ids: "R3", name: "dangling_references", test: danglingReferences},
	// gh-aw-mcpg#3332, Codewhale#5157, piclaw#1295, hermes-agent#72553
	{ids: "R4", name: "excluded_is_unknown", test: excludedIsUnknown, later: "filters for resources and prompts come with profiles"},
	// docker/mcp-gateway#228, anthropics/claude-code#20643, vscode#243602, obot#6429
	{ids: "R5", name: "names_fit", test: namesFit},
	// envoyproxy/ai-gateway#1924, Kuadrant#1382, go-sdk#1175
	{ids: "R6", name: "no_GET_storm", test: noGetStorm},
	// codebase-memory-mcp#1247, vercel/ai#19240, copilot-cli#4006
	{ids: "R8", name: "cursors", test: cursors},
	// hermes-agent#118572, #80689, #88376, nucleus#1332
	{ids: "R9", name: "hidden_text", test: hiddenText, later: "counted in the audit record: with audit"},
	// metamcp#128, metamcp#162, supergateway#108, supergateway#141, docker/mcp-gateway#483, hermes-agent#50169
	{ids: "R10", name: "one_child_and_none_left", test: oneChild},
	// MCPJungle#252, toolhive#5504
	{ids: "R11", name: "agent_headers_stop_here", test: agentHeadersStopHere},
	// agentgateway#2982, Kuadrant#1436, Kuadrant#1450
	{ids: "R12", name: "every_era_with_every_era", test: everyEra},
	// anthropics/claude-code#45106, #56174, nexus#6, weppy#77, mcpx#28
	{ids: "R13", name: "top_level_combinators", test: combinators, later: "wrapping them for one provider: with schema profiles"},
	// denkeeper#219, executor#1595, pluggedin#209, lean-ctx#1250
	{ids: "R15", name: "child_environment", test: childEnvironment},
	// opencode#34074, claude-code#85236, oh-my-pi#5072, copilot-cli#3456
	{ids: "R16", by: "auth/oauth.TestProcessesShareRotation"},
	// mcpproxy-go#1013; the growth and cap of the pause: upstream.TestBackoffIsBounded
	{ids: "R17", name: "bounded_dialling", test: boundedDialling},
	// metamcp#140, openai/codex#29321, mecatl#1695, toolhive#5861
	{ids: "R18", name: "one_hangs_in_initialize", test: oneHangs},
	// TBXark/mcp-proxy#46, mcp-go#588, mcp-go#462
	{ids: "R19", name: "large_lines", test: largeLines},
	// webclaw#107, go-sdk#1177
	{ids: "R21", name: "exits_on_discover", test: exitsOnDiscover},
	// hoop#1764, go-sdk#957
	{ids: "R25", name: "content_types", test: contentTypes},
	// kubeflow/mcp-server#91, bytebase#20585, python-sdk#1798
	{ids: "R27", name: "hosts_and_origins", test: hostsAndOrigins},
	// python-sdk#1400, vscode#259251, apollo#533
	{ids: "R28", by: "auth/oauth.TestDiscoverOrders", later: "metadata of our own: with callers by JWT"},
	// mcp-context-forge#4202, #4135, #4042
	{ids: "R29", name: "error_without_structure", test: errorWithoutStructure},
	// mcp-context-forge#6275, #6181
	{ids: "R30", name: "trouble_is_a_result", test: troubleIsAResult},
	// mcp-context-forge#1258, gridctl#848, fastmcp#2502
	{ids: "R31", name: "whole_definitions", test: wholeDefinitions},
	// XcodeMCPKit#210, Kuadrant#422, ggcode#2490, ruby-mcp-client#178
	{ids: "R33", name: "cancel", test: cancel},
	// docker/mcp-gateway#567, #11, #581, toolhive#2365
	{ids: "R34", name: "collisions", test: collisions},
	// agentgateway#495, #742; that names do not depend on the number of servers: TestProjects
	{ids: "R35", later: "sessions across a reload: with reload"},
	// envoyproxy/ai-gateway#1958, agentgateway#221, mcp-context-forge#5484
	{ids: "R37", name: "call_without_session", test: callWithoutSession},
	// supergateway#139
	{ids: "R39", name: "dies_before_initialize", test: diesBeforeInitialize},
	// supergateway#177; EAGAIN: upstream.TestSpawnErrors
	{ids: "R40", name: "cannot_spawn", test: cannotSpawn},
	{ids: "R42", later: "one server's change alone: with reload"},
	// mcpproxy-go#712, moltis#1054
	{ids: "R44", name: "secrets", test: secrets, later: "status page and metrics: with them"},
	// anthropics/claude-code#23344, #34804, hermes-agent#112280; servers' own proxies: egress.TestNoProxy
	{ids: "R45", name: "proxy_variables_of_children", test: proxyVariables},
	{ids: "R47", later: "redaction of secrets in results: with policy"},
	{ids: "R49", later: "the same server in two profiles: with profiles"},
	// kube-agents#724
	{ids: "R50", name: "startup_probe", test: startupProbe},
	// anthropics/claude-code#11778, docker-agent#2212
	{ids: "R52", name: "recovers_and_leaves_nothing", test: recovers},
}

// TestWished is what users asked for and no gateway had, by its number there.
func TestWished(t *testing.T) {
	run(t, "W1 W2 W3 W4 W5 W6 W7 W8 W9 W10 W11 W12", wishedRows)
}

var wishedRows = []row{
	{ids: "W1", name: "questions_between_the_eras", test: bridge},
	{ids: "W2", by: "test/fidelity.TestResults"},
	{ids: "W3", by: "TestField/R3", later: "schemas written for one provider: with schema profiles"},
	{ids: "W4", later: "with pins"},
	{ids: "W5", later: "with Kubernetes"},
	{ids: "W6", by: "auth/oauth.TestDevice"},
	{ids: "W7", by: "upstream.TestLazy"},
	{ids: "W8", name: "questions_are_cleaned", test: cleanQuestions},
	{ids: "W9", later: "arguments that are set for the agent: with policy"},
	{ids: "W10", later: "commands that explain why a tool is missing: with the catalog's commands"},
	{ids: "W11", later: "identity of each caller: with callers"},
	{ids: "W12", later: "recording a session: with audit"},
}
