package upstream

import (
	"regexp"
	"strings"
)

// shells run text.
var shells = words(`bash sh zsh dash ash ksh fish csh tcsh mksh rbash rksh oksh pdksh lksh yash posh nu elvish xonsh
	osh ysh hush sash cmd powershell pwsh`)

// wrappers run another program, which stands somewhere among their arguments.
var wrappers = words(`env busybox toybox sudo doas su runuser sg pkexec nohup nice ionice chrt timeout gtimeout setsid
	stdbuf time chroot unshare nsenter setpriv capsh script flock watch unbuffer tini dumb-init gosu su-exec
	setuidgid chpst catchsegv systemd-run systemd-inhibit caffeinate arch setarch taskset numactl prlimit exec command
	strace ltrace gdb valgrind perf bwrap firejail proot fakeroot fakechroot xvfb-run dbus-run-session
	proxychains torsocks faketime start-stop-daemon daemonize ssh-agent`)

// loader matches the dynamic loaders, which run the program they are given.
var loader = regexp.MustCompile(`^ld(?:64)?(?:-[\w.-]+)?\.so$`)

func isWrapper(name string) bool { return wrappers[name] || loader.MatchString(name) }

// An evaluator runs text that an argument holds. It says where, and the fields
// that it leaves empty say nothing.
type evaluator struct {
	always bool            // it does nothing else
	sub    map[string]bool // the subcommands without which it does not
	pass   map[string]bool // words that may stand before an option or a subcommand
	code   map[string]bool // the options with text, and the subcommands
	value  map[string]bool // other options that take the word behind them
	// operands is how many may stand before its own options, anywhere that any may.
	operands int
	anywhere bool
	// ends are words like --, behind which a program stands.
	ends map[string]bool
	// data is set where a data: URL is text.
	data bool
	// mark tells text by what it looks like.
	mark *regexp.Regexp
	// narrow is set where only what mark matches is text: other arguments are files
	// and names that such a program has to do with.
	narrow bool
	// runs is set where the first operand is a program.
	runs bool
}

// Several are of one kind.
var (
	pythons = evaluator{code: words("-c"), value: words("-W -X --check-hash-based-pycs")}
	nodes   = evaluator{code: words("-e --eval -p --print -pe"), data: true, value: words(`-r --require --import --loader --experimental-loader
		-C --conditions --env-file -P --project -O --compiler-options --tsconfig`)}
	lispers = evaluator{code: words("-e --eval -eval"), value: words("-l -L")}
	asOther = evaluator{code: words("-c --command --session-command"), value: words("-u --user -g --group -G -w -s --shell"), operands: 1}
	awks    = evaluator{mark: regexp.MustCompile(`\bsystem\s*\(|\|&?\s*getline|\|&?\s*(?:"|sh\b|\w+\s*[;}]?$)|@load`)}
	makes   = evaluator{code: words("-E --eval"), value: words("-C -f -I -j -l -o -W"), anywhere: true}
	sshs    = evaluator{narrow: true, mark: regexp.MustCompile(`(?i)(?:^|[\s'"])(?:-o)?(?:ProxyCommand|LocalCommand|KnownHostsCommand)[\s=]`)}
)

var evaluators = map[string]evaluator{
	"busybox":  {always: true},
	"toybox":   {always: true},
	"xargs":    {always: true},
	"parallel": {always: true},
	"watch":    {always: true},
	"script":   {code: words("-c --command"), operands: 1},
	"flock":    {code: words("-c --command"), value: words("-w --wait -E"), operands: 1},
	"su":       asOther,
	"runuser":  asOther,
	"sg":       asOther,
	"find":     {code: words("-exec -execdir -ok -okdir"), anywhere: true},
	"gdb":      {code: words("-ex -iex --eval-command --init-eval-command"), anywhere: true},

	"python": pythons, "pypy": pythons, "pythonw": pythons, "py": pythons, "ipython": pythons, "graalpy": pythons, "jython": pythons,
	"micropython": pythons,
	"node":        nodes, "nodejs": nodes, "tsx": nodes, "ts-node": nodes, "ts-node-esm": nodes,
	"bun":       {data: true, code: words("-e --eval -p --print exec"), pass: words("x"), value: words("-r --preload --cwd"), runs: true},
	"deno":      {data: true, code: words("eval --eval"), pass: words("repl run")},
	"perl":      {code: words("-e -E"), value: words("-I")},
	"raku":      {code: words("-e"), value: words("-I")},
	"ruby":      {code: words("-e"), value: words("-I -r")},
	"php":       {code: words("-r -B -R -E --run"), value: words("-c -d")},
	"lua":       {code: words("-e"), value: words("-l")},
	"luajit":    {code: words("-e"), value: words("-l")},
	"osascript": {code: words("-e"), value: words("-l")},
	"expect":    {code: words("-c")},
	"r":         lispers, "rscript": lispers, "julia": lispers, "elixir": lispers, "erl": lispers, "groovy": lispers,
	"guile": {code: words("-c"), value: words("-L -l")},
	"awk":   awks, "gawk": awks, "mawk": awks, "nawk": awks, "original-awk": awks,
	"make": makes, "gmake": makes,

	"npx":       {code: words("-c --call"), value: words("-p --package"), runs: true},
	"bunx":      {value: words("-p --package"), runs: true},
	"uvx":       {value: uvValue, runs: true},
	"pipx":      {sub: words("run"), value: words("--spec --python --pip-args --index-url -i --with"), runs: true},
	"npm":       {sub: words("exec x"), code: words("-c --call"), value: words("--prefix -w --workspace -p --package"), runs: true},
	"pnpm":      {sub: words("exec dlx"), code: words("-c --shell-mode"), value: words("-C --dir --package -F --filter"), runs: true},
	"yarn":      {sub: words("exec"), value: words("--cwd"), runs: true},
	"uv":        {sub: words("run"), pass: words("tool"), runs: true, value: uvValue},
	"poetry":    {sub: words("run"), value: words("-C --directory -P --project"), runs: true},
	"pipenv":    {sub: words("run"), value: words("--python --pypi-mirror"), runs: true},
	"hatch":     {sub: words("run"), value: words("-e --env -p --project --data-dir --cache-dir --config"), runs: true},
	"pdm":       {sub: words("run"), value: words("-p --project -c --config --site-packages"), runs: true},
	"rye":       {sub: words("run"), value: words("--pyproject"), runs: true},
	"pixi":      {sub: words("run"), value: words("--manifest-path -e --environment"), runs: true},
	"bundle":    {sub: words("exec"), value: words("--gemfile"), runs: true},
	"mise":      {sub: words("exec x"), code: words("-c --command"), value: words("-C --cd -E --env -j --jobs"), operands: 8, runs: true},
	"asdf":      {sub: words("exec"), runs: true},
	"direnv":    {sub: words("exec"), operands: 1, runs: true},
	"devbox":    {sub: words("run"), value: words("-c --config -e --env --env-file --environment"), runs: true},
	"nix":       {sub: words("develop shell"), value: nixValue, ends: words("-c --command"), operands: 64, runs: true},
	"nix-shell": {code: words("--run --command"), value: nixValue},
	"rsync":     {code: words("-e --rsh --rsync-path"), anywhere: true},
	// What puts secrets into a program's environment.
	"op":        {sub: words("run"), value: words("--env-file --account --environment --config --session"), runs: true},
	"doppler":   {sub: words("run"), code: words("--command"), value: words("-p --project -c --config -t --token --scope --mount"), runs: true},
	"infisical": {sub: words("run"), code: words("--command"), value: words("-e --env --path --projectId --token --domain --tags"), runs: true},
	"dotenv":    {sub: words("run"), value: words("-f --file -e --export"), runs: true},
	"dotenvx":   {sub: words("run"), value: words("-f --env-file -e --env -fk --env-keys-file"), runs: true},

	"conda": condas, "mamba": condas, "micromamba": condas,

	"git": {mark: regexp.MustCompile(`(?i)(?:^|[\s'"])(?:-c)?(?:alias\.[^=]*=\s*!|credential\.(?:.*\.)?helper=\s*!|diff\.external=` +
		`|core\.(?:sshcommand|pager|editor|fsmonitor|gitproxy|hookspath)=|sequence\.editor=|pager\.\w+=|ext::|--upload-pack=|--receive-pack=)`)},
	"ssh": sshs, "scp": sshs, "sftp": sshs, "sshfs": sshs, "autossh": sshs,
}

var uvValue = words(`--with --with-editable --with-requirements -p --python --directory --project --from --extra --group
	--env-file --package --index --default-index --index-url --extra-index-url --refresh-package --color --config-file
	--cache-dir -i -f --find-links -w -c --constraints`)

// nixValue are the options of nix and its older commands that take a value.
var nixValue = words("-f --file -I --include -k --keep --keep-env-var -p --packages --option --profile --override-input --system -j --max-jobs")

var condas = evaluator{sub: words("run"), value: words("-n --name -p --prefix --cwd"), runs: true}

func words(s string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(s) {
		m[w] = true
	}
	return m
}
