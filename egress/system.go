package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strconv"
	"strings"
)

// System is what the operating system says about proxies.
type System struct {
	// HTTP, HTTPS and SOCKS are proxies as host:port. If empty, there is none.
	HTTP, HTTPS, SOCKS string
	// Except are the exempt hosts, as macOS writes them: *.local, 169.254/16.
	Except []string
	// ExceptSimple exempts hosts without a dot.
	ExceptSimple bool
	// Script reports that a proxy script is configured, which we do not run.
	Script bool
}

func (e *Egress) fromSystem(s *System) error {
	err := errors.Join(
		e.parse("the system's HTTP proxy", s.HTTP, &e.http),
		e.parse("the system's HTTPS proxy", s.HTTPS, &e.https))
	if s.SOCKS != "" && (s.HTTP == "" || s.HTTPS == "") {
		err = errors.Join(err, e.parse("the system's SOCKS proxy", "socks5://"+s.SOCKS, &e.all))
	}
	if s.Script {
		e.warn("the system's proxy script (PAC) is not used; set egress.proxy")
	}
	for _, w := range s.Except {
		e.exempt("the system's exceptions", []string{widen(w)})
	}
	e.bypass.simple = s.ExceptSimple
	return err
}

// widen turns the short forms 169.254/16 and 10.* into CIDRs.
func widen(s string) string {
	base, bits, cidr := strings.Cut(s, "/")
	parts := strings.Split(base, ".")
	if len(parts) > 4 || strings.Contains(base, ":") {
		return s
	}
	known := len(parts)
	for known > 0 && parts[known-1] == "*" {
		known--
	}
	if known == 0 || !cidr && known == len(parts) {
		return s
	}
	for _, p := range parts[:known] {
		if _, err := strconv.ParseUint(p, 10, 8); err != nil {
			return s
		}
	}
	if !cidr {
		bits = strconv.Itoa(8 * known)
	}
	return strings.Join(parts[:known], ".") + strings.Repeat(".0", 4-known) + "/" + bits
}

// ParseScutil reads the output of macOS' `scutil --proxy`. What it does not know
// it skips; what it cannot read it leaves out.
func ParseScutil(out []byte) System {
	values, list := scutilValues(out)
	proxy := func(kind string) string {
		port := values[kind+"Port"]
		if values[kind+"Enable"] != "1" || values[kind+"Proxy"] == "" {
			return ""
		}
		if port == "" {
			return values[kind+"Proxy"]
		}
		return net.JoinHostPort(values[kind+"Proxy"], port)
	}
	return System{
		HTTP:         proxy("HTTP"),
		HTTPS:        proxy("HTTPS"),
		SOCKS:        proxy("SOCKS"),
		Except:       list,
		ExceptSimple: values["ExcludeSimpleHostnames"] == "1",
		Script:       values["ProxyAutoConfigEnable"] == "1" || values["ProxyAutoDiscoveryEnable"] == "1",
	}
}

// scutilValues returns the values of the outermost dictionary and its list of
// exceptions. Deeper dictionaries are settings of single interfaces.
func scutilValues(out []byte) (values map[string]string, exceptions []string) {
	values = map[string]string{}
	depth, in := 0, ""
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		key, value, _ := strings.Cut(line, " : ")
		switch {
		case strings.HasSuffix(line, "{"):
			if depth++; depth == 2 {
				in = key
			}
		case line == "}":
			depth--
		case depth == 1 && value != "":
			values[key] = value
		case depth == 2 && in == "ExceptionsList" && value != "":
			exceptions = append(exceptions, value)
		}
	}
	return values, exceptions
}
