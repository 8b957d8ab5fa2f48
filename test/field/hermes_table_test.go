package field

import "testing"

// TestHermes is what users of one agent reported, by the issue or pull request
// of NousResearch/hermes-agent.
func TestHermes(t *testing.T) {
	run(t, hermesNumbers, hermesRows)
}

const hermesNumbers = "57129 38488 19559 103746 50482 50394 47216 43984 19179 37768 88661 13383 27052 17662 24508 43678 97245 32744 " +
	"101007 111565 1036 57228 57355 60385 11202 29363 47510 80204 81880 108085 72032 72033 3077 87112 30563 40232 111794 112280 106984 " +
	"57958 59316 55203 95187 113359 50395 30369 34186 1291 44548 7832 114144 62333 106185 98759 115329 11383 84843 100443 wet-mcp#1138 " +
	"91654 105396 95518 106314 108352 21559 26972 30601 99838 115430 56072 56059 22001 22300 27521 64101 81151 " +
	"79519 62212 66092 9930 16788 10447 11113 18051 81995 96452 48069 58862 62771 47134 45620 37792 36767 57836 35927 44588 34260 22161 5344 " +
	"53676 104343 113771 116233 117510 111135 132730 13414 9006 8925 12865"

const (
	withReload    = "with reload"
	withMessaging = "with `mcp serve`"
)

var hermesRows = []row{
	{ids: "57129 38488", name: "revives_after_an_outage", test: outage},
	{ids: "19559", name: "starts_after_us", test: lateStart},
	{ids: "103746", name: "one_owner_per_connection", test: oneSession},
	{ids: "50482 50394", name: "broken_server_is_not_respawned_per_agent", test: cooldown},
	{ids: "47216", name: "one_shot_client_sees_all", test: oneShotClient},
	{ids: "43984", name: "faults_stay_with_their_server", test: strangersHurtNobody},
	{ids: "19179 113359", name: "startup_failure_is_said", test: strangersAreNamed},
	{ids: "37768 50395", name: "one_code_path", test: sharedPath},
	{ids: "88661", by: "TestField/R30"},
	{ids: "13383 27052", name: "lost_session_is_opened_again", test: lostSessions},
	{ids: "17662 24508 43678", name: "dropped_stream", test: droppedStream},
	{ids: "97245", by: "upstream.TestKeepalive"},
	{ids: "32744", name: "server_never_tells", test: neverTells},
	{ids: "101007 111565", name: "lists_live", test: lifetimeOfLists},
	{ids: "1036", later: withReload},
	{ids: "57228 57355 60385", name: "old_child_is_gone_before_the_next", test: respawns},
	{ids: "11202 29363 47510 80204 81880", by: "test/field.TestSIGKILL"},
	{ids: "108085", later: withReload},
	{ids: "72032 72033 3077", name: "collision", test: ownCollision},
	{ids: "87112", name: "native_wins", test: nativeWins},
	{ids: "30563", name: "reserved_names", test: reservedServerNames},
	{ids: "40232", later: "with schema profiles"},
	{ids: "111794 112280", by: "egress.TestNoProxy"},
	{ids: "106984", by: "TestField/R45"},
	{ids: "57958 59316 55203", by: "TestField/R6"},
	{ids: "95187 53676 104343 66092", by: "upstream.TestSSEFallback"},
	{ids: "30369", name: "literal_PATH", test: literalPath},
	{ids: "34186 1291", name: "command_on_its_own_PATH", test: ownPath},
	{ids: "44548 7832", name: "dot_env", test: dotEnv},
	{ids: "114144", name: "rotated_secret", test: rotated},
	{ids: "62333 106185", by: "auth/oauth.TestKeeperRefreshesAhead"},
	{ids: "98759", by: "auth/oauth.TestLoginKeepsOldOnFailure"},
	{ids: "115329", by: "auth/oauth.TestUserAgent"},
	{ids: "11383", by: "auth/oauth.TestKeeperAdoptsPeers"},
	{ids: "84843", by: "auth/oauth.TestProcessesShareRotation"},
	{ids: "100443", by: "TestField/R17"},
	{ids: "wet-mcp#1138", by: "auth/oauth.TestLoginAuthorizeURL"},
	{ids: "91654 105396 95518 106314 108352", later: "with profiles"},
	{ids: "21559 26972 30601 99838 115430", name: "every_block_arrives", test: everyBlockArrives},
	{ids: "56072 56059", by: "TestField/R19"},
	{ids: "22001 22300 27521 13414 9006 8925", later: withMessaging},
	{ids: "64101", name: "instructions_of_what_is_shown", test: instructionsOfShown},
	{ids: "81151", name: "untrusted", test: untrusted, later: "approval of a call: with approvals"},

	{ids: "79519", name: "arguments_as_a_string", test: stringArguments},
	{ids: "62212", by: "upstream.TestBudgetNeedsProof"},
	{ids: "9930", by: "TestField/R33"},
	{ids: "16788 10447 11113", by: "upstream.TestBreakerOverHTTP"},
	{ids: "18051", by: "TestHermes/87112"},
	{ids: "81995 96452 48069", name: "death_in_a_call", test: deathMidCall},
	{ids: "58862", by: "TestField/R10"},
	{ids: "62771", by: "TestHermes/47216"},
	{ids: "47134", by: "upstream.TestSafeGroup"},
	{ids: "45620", by: "upstream.TestScreen", later: "screening what a catalog installs: with the catalog"},
	{ids: "37792", name: "placeholders_stay", test: placeholders},
	{ids: "36767", by: "auth/oauth.TestLoginUnknownClient"},
	{ids: "57836 35927", by: "upstream.TestTokensNeedLogin"},
	{ids: "44588 34260 22161 5344", by: "auth/oauth.TestLoginPortBusy"},
	{ids: "113771", by: "auth/oauth.TestDiscoverHeaders"},
	{ids: "116233", by: "auth/oauth.TestDiscoverOriginAsIssuer"},
	{ids: "117510", by: "auth/oauth.TestAuthorizeParams"},
	{ids: "111135", by: "auth/oauth.TestLoginIss"},
	{ids: "132730", by: "auth/oauth.TestDiscoverTenants"},
	{ids: "12865", name: "filters_as_written", test: filterSpellings},
}
