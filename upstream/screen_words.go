package upstream

import (
	"regexp"
	"strings"
)

// What an entry may not mention to a shell. Programs are words of their own, so
// /opt/curly, curl-config and curl.example.com are none.
var (
	netPrograms = standing(`curl|wget|nc|ncat|netcat|socat|telnet|iwr|irm|invoke-webrequest|invoke-restmethod|system\.net\.webclient`)
	netDevices  = regexp.MustCompile(`(?i)(/dev/(?:tcp|udp)/)`)
	lasting     = []*regexp.Regexp{
		element(`authorized_keys2?|\.ssh|sudoers(?:\.d)?|pam\.d|pam\.conf|rc\.local|rc\.d|init\.d`),
		element(`cron|crontabs?|cron\.(?:d|hourly|daily|weekly|monthly|allow|deny)|anacrontab`),
		element(`\.bashrc|\.bash_profile|\.bash_login|\.bash_logout|\.bash_aliases|bash\.bashrc|\.profile|profile\.d`),
		element(`\.zshrc|\.zshenv|\.zprofile|\.zlogin|\.zlogout|\.kshrc|\.mkshrc|\.cshrc|\.tcshrc|\.login|\.xprofile|\.xinitrc|\.xsession|config\.fish|\.config/fish`),
		element(`LaunchAgents|LaunchDaemons|\.config/autostart`),
		regexp.MustCompile(`(?i)(/etc/(?:ssh|profile|zsh|zshrc|zshenv|zprofile|environment|ld\.so\.preload|cron\w*))(?:$|[^\w-])`),
		regexp.MustCompile(`(?i)(?:^|[^\w-])(systemd/(?:system|user)(?:-\w+)?)(?:$|[^\w-])`),
		regexp.MustCompile(`(?i)(?:^|[^\w.-])(systemctl|launchctl)(?:$|[^\w.=/-])`),
	}
)

// standing matches a program's name, alone or at the end of a path.
func standing(names string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^\w.-])(` + names + `)(?:\.exe)?(?:$|\.?$|\.\s|[^\w.=/-])`)
}

// element matches one element of a path, or several, wherever the path goes on.
func element(names string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^\w.-])(` + names + `)(?:$|[^\w.=-])`)
}

// unquoted takes out what a shell takes out of a word before it looks at it.
var unquoted = strings.NewReplacer(`\`, "", `"`, "", `'`, "", "^", "", "`", "")

// suspicious returns the first word of text that no shell has to mention, and what
// it does.
func suspicious(text string) (word, does string) {
	for _, t := range []string{text, unquoted.Replace(text)} {
		for _, re := range []*regexp.Regexp{netPrograms, netDevices} {
			if m := re.FindStringSubmatch(t); m != nil {
				return m[1], "reaches the network"
			}
		}
		for _, re := range lasting {
			if m := re.FindStringSubmatch(t); m != nil {
				return m[1], "outlives the program"
			}
		}
	}
	return "", ""
}
