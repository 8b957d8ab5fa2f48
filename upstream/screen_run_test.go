package upstream

import (
	"errors"
	"strings"
	"testing"
)

// TestScreenEvaluators is about programs other than shells that run what an
// argument says. Each row is a command line, parted by |, with the setting to blame;
// ¦ is a | in an argument.
func TestScreenEvaluators(t *testing.T) {
	for _, tt := range []struct{ line, at, word string }{
		// Shells.
		{"yash|-c|curl x", "args.1", "curl"},
		{"posh|-c|wget x", "args.1", "wget"},
		{"/usr/bin/nu|-c|curl x", "args.1", "curl"},
		{"elvish|-c|curl x", "args.1", "curl"},
		{"xonsh|-c|curl x", "args.1", "curl"},
		{"env|xonsh|-c|curl x", "args.2", "curl"},
		// Programs that hand a text to a shell.
		{"script|-qc|curl x", "args.1", "curl"},
		{"script|-q|--command=curl x|/dev/null", "args.1", "curl"},
		{"script|/dev/null|-c|curl x", "args.2", "curl"},
		{"su|bob|-c|curl x", "args.2", "curl"},
		{"runuser|-u|bob|--command|curl x", "args.3", "curl"},
		{"flock|/tmp/l|-c|curl x", "args.2", "curl"},
		{"sg|users|-c|curl x", "args.2", "curl"},
		{"watch|-n|5|curl x", "args.2", "curl"},
		{"parallel|curl|:::|x", "args.0", "curl"},
		{"busybox|wget|x", "args.0", "wget"},
		{"env|busybox|nc|-l", "args.1", "nc"},
		{"env|-S|script -qc 'curl x'", "args.1", "curl"},
		{"env|-S'sh' -c 'curl x'", "args.0", "curl"},
		{"env|--split-string=sh -c 'curl x'", "args.0", "curl"},
		// Programs that run another one.
		{"/lib64/ld-linux-x86-64.so.2|/bin/sh|-c|curl x", "args.2", "curl"},
		{"/lib/ld-linux.so.2|--library-path|/x|/bin/bash|-c|curl x", "args.4", "curl"},
		{"/lib/ld-musl-x86_64.so.1|/bin/busybox|sh|-c|curl x", "args.3", "curl"},
		{"/lib64/ld-2.31.so|/bin/sh|-c|curl x", "args.2", "curl"},
		{"ld.so|/bin/sh|-c|curl x", "args.2", "curl"},
		{"strace|-f|-o|/dev/null|sh|-c|curl x", "args.5", "curl"},
		{"ltrace|sh|-c|curl x", "args.2", "curl"},
		{"bwrap|--bind|/|/|sh|-c|curl x", "args.5", "curl"},
		{"firejail|--quiet|bash|-c|curl x", "args.3", "curl"},
		{"proot|-r|/x|/bin/sh|-c|curl x", "args.4", "curl"},
		{"chroot|/x|sh|-c|curl x", "args.3", "curl"},
		{"unshare|-r|sh|-c|curl x", "args.3", "curl"},
		{"nsenter|-t|1|-m|sh|-c|curl x", "args.5", "curl"},
		{"setpriv|--no-new-privs|sh|-c|curl x", "args.3", "curl"},
		{"systemd-run|--user|sh|-c|curl x", "args.3", "curl"},
		{"pkexec|sh|-c|curl x", "args.2", "curl"},
		{"proxychains4|-q|sh|-c|curl x", "args.3", "curl"},
		{"find|/tmp|-name|x|-exec|sh|-c|curl x|;", "args.6", "curl"},
		{"find|/tmp|-execdir|curl|x|;", "args.2", "curl"},
		{"find|--|/tmp|-exec|curl|x|;", "args.3", "curl"},
		{"sudo|find|/|-exec|wget|x|;", "args.3", "wget"},
		{"xargs|-a|/tmp/urls|curl", "args.2", "curl"},
		{"xargs|-I{}|sh|-c|wget {}", "args.3", "wget"},
		{"mise|exec|node@20|--|sh|-c|curl x", "args.5", "curl"},
		{"mise|x|-C|/x|--|bash|-lc|wget x", "args.6", "wget"},
		{"mise|exec|-c|curl x", "args.2", "curl"},
		{"asdf|exec|sh|-c|curl x", "args.3", "curl"},
		{"direnv|exec|.|bash|-c|curl x", "args.4", "curl"},
		{"devbox|run|--|sh|-c|curl x", "args.4", "curl"},
		{"devbox|run|-c|/x|sh|-c|curl x", "args.5", "curl"},
		{"nix|develop|-c|sh|-c|curl x", "args.4", "curl"},
		{"nix|develop|.#dev|--command|bash|-c|wget x", "args.5", "wget"},
		{"nix|shell|nixpkgs#x|-c|sh|-c|curl x", "args.5", "curl"},
		{"nix-shell|-p|hello|--run|curl x", "args.3", "curl"},
		{"rsync|-a|-e|sh -c 'curl x'|a|b:", "args.2", "curl"},
		{"rsync|--rsh=sh -c 'wget x'|a|b:", "args.0", "wget"},
		// Runners of projects.
		{"uv|run|sh|-c|curl x", "args.3", "curl"},
		{"uv|--directory|/x|run|--with|mcp|--frozen|python|-c|os.system('curl x')", "args.8", "curl"},
		{"uv|run|--|bash|-c|curl x", "args.4", "curl"},
		{"uv|tool|run|--from|x|bash|-c|curl x", "args.6", "curl"},
		{"poetry|-C|/x|run|bash|-c|curl x", "args.5", "curl"},
		{"pipenv|run|python3|-c|os.system('curl x')", "args.3", "curl"},
		{"hatch|-e|dev|run|sh|-c|curl x", "args.5", "curl"},
		{"hatch|run|curl x ¦ sh", "args.1", "curl"},
		{"conda|run|-n|base|--no-capture-output|sh|-c|curl x", "args.6", "curl"},
		{"poetry|run|timeout|5|sh|-c|curl x", "args.5", "curl"},
		{"uv|run|env|uv|run|sh|-c|curl x", "args.6", "curl"},
		{strings.Repeat("uv|run|", 20) + "sh|-c|curl x", "args.41", "curl"},
		{"bundle|exec|ruby|-e|`curl x`", "args.3", "curl"},
		{"npm|exec|-c|curl x", "args.2", "curl"},
		{"npm|--prefix|/x|exec|--yes|--call=curl x", "args.4", "curl"},
		{"npm|x|--package=a|-c|curl x", "args.3", "curl"},
		{"npm|exec|--|sh|-c|curl x", "args.4", "curl"},
		{"npx|-p|x|bash|-c|curl x", "args.4", "curl"},
		{"npx|-y|tsx|-e|exec('curl x')", "args.3", "curl"},
		{"uvx|python|-c|os.system('curl x')", "args.2", "curl"},
		{"npx.cmd|-c|curl x", "args.1", "curl"},
		{"bunx|--bun|tsx|-e|exec('curl x')", "args.3", "curl"},
		{"bunx|-p|x|bash|-c|curl x", "args.4", "curl"},
		{"bun|x|tsx|-e|exec('curl x')", "args.3", "curl"},
		{"pipx|run|--spec|x|bash|-c|curl x", "args.5", "curl"},
		{"op|run|--env-file|.env|--|sh|-c|curl x", "args.6", "curl"},
		{"doppler|run|-p|a|--|sh|-c|curl x", "args.6", "curl"},
		{"doppler|run|--command|curl x", "args.2", "curl"},
		{"dotenv|-f|.env|run|--|sh|-c|curl x", "args.6", "curl"},
		{"dotenvx|run|-f|.env|--|sh|-c|curl x", "args.6", "curl"},
		{"infisical|run|--env|dev|--command=curl x", "args.3", "curl"},
		{"pnpm|exec|-c|curl x", "args.2", "curl"},
		{"pnpm|--package=a|-c|dlx|curl x", "args.3", "curl"},
		{"pnpm|dlx|--shell-mode|curl x", "args.2", "curl"},
		{"yarn|exec|curl x ¦ sh", "args.1", "curl"},
		{"yarn|exec|bash|-c|curl x", "args.3", "curl"},
		// Interpreters.
		{"pypy3|-c|os.system('curl x')", "args.1", "curl"},
		{"py|-3|-c|os.system('curl x')", "args.2", "curl"},
		{"ts-node|-e|exec('curl x')", "args.1", "curl"},
		{"tsx|--eval|exec('curl x')", "args.1", "curl"},
		{"bun|-e|$`curl x`", "args.1", "curl"},
		{"bun|exec|curl x", "args.1", "curl"},
		{"deno|eval|new Deno.Command('curl')", "args.1", "curl"},
		{"deno|repl|--eval=new Deno.Command('curl')", "args.1", "curl"},
		{"deno|run|-A|data:text/javascript,new Deno.Command('curl')", "args.2", "curl"},
		{"node|--import|data:text/javascript,exec('curl x')|a.js", "args.1", "curl"},
		{"awk|BEGIN{system(\"curl x\")}", "args.0", "curl"},
		{"gawk|-v|c=curl x|BEGIN{system(c)}", "args.1", "curl"},
		{"mawk|BEGIN{\"curl x\" ¦ getline y}", "args.0", "curl"},
		{"awk|BEGIN{print y ¦ \"nc x 1\"}", "args.0", "nc"},
		{"env|awk|BEGIN{system(\"curl x\")}", "args.1", "curl"},
		{"Rscript|-e|system('curl x')", "args.1", "curl"},
		{"make|--eval=x:;curl x", "args.0", "curl"},
		{"gmake|-C|/x|--eval|x:;curl x", "args.3", "curl"},
		{"make|-f|/dev/null|-E|$(shell curl x)", "args.3", "curl"},
		{"git|-c|alias.x=!curl x|x", "args.1", "curl"},
		{"git|-C|/x|-calias.x=! curl x|x", "args.2", "curl"},
		{"git|-c|alias.x=!$1|x|curl", "args.3", "curl"},
		{"git|-c|core.sshCommand=curl x #|fetch", "args.1", "curl"},
		{"git|-c|core.pager=curl x|-p|log", "args.1", "curl"},
		{"git|-c|credential.helper=!curl x|fetch", "args.1", "curl"},
		{"git|clone|ext::sh -c 'curl% x'", "args.1", "curl"},
		{"sudo|git|-c|alias.x=!curl x|x", "args.2", "curl"},
		{"ssh|-o|ProxyCommand=curl x|h", "args.1", "curl"},
		{"ssh|-oproxycommand=sh -c 'curl x'|h", "args.0", "curl"},
		{"ssh|-v|-o|ProxyCommand nc -e /bin/sh x 1|h", "args.2", "nc"},
		{"ssh|-o|ProxyCommand=nc x 1 ¦ sh|h", "args.1", "nc"},
		{"ssh|-o|ProxyCommand=socat - EXEC:sh|h", "args.1", "socat"},
		{"ssh|-o|PermitLocalCommand=yes|-o|LocalCommand=crontab x|h", "args.3", "crontab"},
		{"scp|-oProxyCommand=curl x|a|h:b", "args.0", "curl"},
		{"env|ssh|-o|ProxyCommand=curl x|h", "args.2", "curl"},
		{"ssh -oProxyCommand=curl h", "command", "curl"},
		{"git -calias.x=!curl x", "command", "curl"},
		{"env git -c alias.x=!curl x", "command", "curl"},
		{"env|git|-c|alias.x=!y|sh|-c|curl x", "args.5", "curl"},
	} {
		argv := strings.Split(tt.line, "|")
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], "¦", "|")
		}
		err := Screen(&Settings{Command: argv[0], Args: argv[1:]})
		var at *SettingError
		switch {
		case !errors.As(err, &at):
			t.Errorf("%s: got %v", tt.line, err)
		case strings.Join(at.Path, ".") != tt.at || !strings.Contains(err.Error(), `"`+tt.word+`"`):
			t.Errorf("%s: got %v, want %s and %q", tt.line, err, tt.at, tt.word)
		}
	}
}

// TestScreenPasses holds that what people really write passes.
func TestScreenPasses(t *testing.T) {
	for _, line := range []string{
		"npx|-y|@modelcontextprotocol/server-filesystem|/x",
		"npx|-y|@modelcontextprotocol/server-filesystem|/home/me/.ssh",
		"npx|-y|mcp-shell|--shell|bash|--allow|curl,wget",
		"npm|exec|--yes|--|@example/server|-c|/x/.ssh/config",
		"npm|--prefix|/x|run|start|--|curl",
		"pnpm|dlx|@example/server|-c|curl",
		"pnpm|-C|/x|start|curl",
		"yarn|exec|@example/server|--allow|curl",
		"bunx|@example/server|curl",
		"bun|run|index.ts|-e|curl",
		"bun|x|@example/server|exec|curl",
		"bun|--cwd|/x|server.ts|--shell|bash|curl",
		"bunx|-y|@example/server|--shell|bash|curl",
		"pipx|run|my-server|--shell|bash|curl",
		"pipx|install|bash|curl",
		"op|run|--env-file|.env|--|npx|-y|@example/server|--shell|bash|curl",
		"op|read|curl",
		"doppler|run|-p|a|-c|dev|--|node|server.js|-e|curl",
		"dotenv|-f|.env|run|--|uvx|my-server|curl",
		"dotenvx|run|-f|.env|--|node|server.js|curl",
		"infisical|run|--env|dev|--|python|-m|server|curl",
		"uvx|mcp-server-git|--repository|/x",
		"uvx|--from|x|mcp-shell-server|--shell|bash|--allow|curl",
		"uv|--directory|/x|run|server.py",
		"uv|run|--with|mcp|mcp|run|x.py",
		"uv|run|--with|mcp|my-server|--shell|bash|--allow|curl",
		"uv|run|python|-m|server|-c|curl",
		"uv|tool|install|bash|curl",
		"poetry|run|python|-m|mcp_server",
		"poetry|run|my-server|--shell|/bin/sh|--allow|wget",
		"hatch|run|serve|curl",
		"hatch|run|dev:my server",
		"conda|run|-n|base|python|-m|server|curl",
		"mise|exec|node@20|--|node|server.js|-c|curl",
		"mise|x|--|npx|-y|@example/server|--shell|bash|--allow|curl",
		"mise|run|serve|curl",
		"asdf|exec|node|server.js|curl",
		"direnv|exec|.|node|server.js|--shell|bash|curl",
		"devbox|run|serve|curl",
		"devbox|run|--|node|server.js|curl",
		"nix|develop|-c|node|server.js|--shell|bash|curl",
		"nix|run|nixpkgs#mcp-server|--|--shell|bash|curl",
		"nix|shell|nixpkgs#nodejs|-c|node|server.js|curl",
		"rsync|--daemon|--no-detach|curl",
		"docker|run|-i|--rm|image",
		"docker|run|-i|--rm|-v|/home/me/.ssh:/root/.ssh:ro|curlimages/curl|https://x.example",
		"python|-m|module",
		"python3|-u|-m|module|--cron|/etc/cron.d",
		"pypy3|server.py|-c|curl",
		"node|dist/index.js",
		"node|--import|tsx|server.ts|curl",
		"tsx|server.ts|-e|curl",
		"ts-node|--esm|server.ts|curl",
		"deno|run|--allow-net|x.ts",
		"deno|run|--allow-run=curl|x.ts",
		"bash|start.sh",
		"sh|-c|cd /srv && exec node index.js",
		"make|-C|dir|serve",
		"make|-s|-C|dir|serve|FETCH=curl|SHELL=/bin/bash",
		"ssh|host|mcp-server",
		"ssh|-i|/home/me/.ssh/id_ed25519|-o|BatchMode=yes|host|mcp-server",
		"ssh|-i|~/.ssh/id|-o|ProxyCommand=nc -X connect -x proxy:3128 %h %p|host|mcp-server",
		"ssh|-o|ProxyCommand=/usr/bin/ssh -i ~/.ssh/id -W %h:%p jump|host|mcp-server",
		"ssh|-i|~/.ssh/id|-o|ProxyCommand=cloudflared access ssh --hostname %h|host|mcp-server",
		"ssh|-oProxyCommand=socat - PROXY:proxy:%h:%p,proxyport=3128|host|mcp-server",
		"ssh|-o|UserKnownHostsFile=~/.ssh/known|host|mcp-server",
		"git|-C|/x|mcp|--remote|curl",
		"git|-c|core.sshCommand=ssh -i ~/.ssh/id|mcp-server",
		"git|-c|user.name=curl|mcp",
		"awk|/curl/{print}",
		"find|/home/me/.ssh|-type|f",
		"script|-q|/dev/null|node|server.js",
		"strace|-f|node|server.js|curl",
		"bwrap|--ro-bind|/usr|/usr|--bind|/home/me/.ssh|/root/.ssh|node|server.js",
		"firejail|--net=none|node|server.js",
		"flock|-n|/tmp/l|node|server.js|curl",
		"flock|/tmp/l|my-server|-c|/x/.ssh/config",
		"script|-q|/dev/null|my-server|-c|/x/.ssh/config",
		"su|bob|/srv/my-server|-c|/x/.ssh/config",
		"systemd-run|--user|--scope|node|server.js",
		"env|A=1|uv|run|server.py|curl",
		"xargs|-a|/etc/args|my-server",
		"busybox|httpd|-f",
		"Rscript|server.R|-e|curl",
		"java|-jar|x.jar|sh|curl",
	} {
		argv := strings.Split(line, "|")
		if err := Screen(&Settings{Command: argv[0], Args: argv[1:]}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestScreenIsBounded holds that no row of words has more readings than words, nor
// takes for ever.
func TestScreenIsBounded(t *testing.T) {
	for _, unit := range []string{"env", "make", "find", "uv|run", "env|git|-c|alias.x=", "timeout|ssh|-oProxyCommand=x", "sudo|python|-x", "-x", "poetry|run|env", "run|uv run /uv", "uv|run|python|-c", "sudo|python|-c"} {
		argv := strings.Split("env|"+strings.TrimSuffix(strings.Repeat(unit+"|", 5_000), "|"), "|")
		for _, from := range []int{0, 1} {
			if n := len(readings(argv[from], argv[from+1:])); n > len(argv) {
				t.Errorf("%s: %d readings of %d words", unit, n, len(argv))
			}
		}
	}
}
