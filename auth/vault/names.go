package vault

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	fileSuffix   = ".json"
	backupSuffix = ".bak"  // after fileSuffix: of a newer version
	lockSuffix   = ".lock" // in place of fileSuffix
	tempPrefix   = ".new-"

	maxName = 4096 // bytes of a server's name
	maxBase = 180  // bytes of a file's name without its suffixes
	maxKept = 100  // bytes that are left of a longer one, before its digest
)

func checkName(server string) error {
	switch {
	case server == "":
		return errors.New("the server has no name")
	case len(server) > maxName:
		return fmt.Errorf("the server's name is longer than %d bytes", maxName)
	case !utf8.ValidString(server):
		return errors.New("the server's name is not UTF-8")
	}
	return nil
}

func fileName(server string) string { return baseName(server) + fileSuffix }

// baseName is a file's name for a server, without suffixes. Two servers never have
// the same: what is not a lower case letter, a digit or a hyphen is escaped, so that
// file systems that do not tell A from a, or that write é in two ways, tell these
// names apart. All of it may be in a key of a Kubernetes secret.
func baseName(server string) string {
	var b strings.Builder
	kept := 0 // bytes that are left of a long name: whole escapes, or the rest could be another's
	for i := range len(server) {
		if b.Len() <= maxKept {
			kept = b.Len()
		}
		switch c := server[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' && i > 0:
			b.WriteByte(c)
		case c == '_':
			b.WriteString("__")
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	switch base := b.String(); {
	case device(base):
		return fmt.Sprintf("_%02x%s", base[0], base[1:])
	case len(base) > maxBase:
		digest := sha256.Sum256([]byte(server))
		return base[:kept] + "_h" + hex.EncodeToString(digest[:]) // h is in no escape
	default:
		return base
	}
}

// device reports whether a file on a Windows drive, as WSL mounts them, cannot be
// called so, whatever its suffix.
func device(base string) bool {
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && base[3] <= '9'
}

// serverOf is the server that a file is of, by its name; ok is false for names
// that fileName does not make, and for those that hold only a digest.
func serverOf(name string) (server string, ok bool) {
	base, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || len(base) > maxBase {
		return "", false
	}
	var b []byte
	for i := 0; i < len(base); i++ {
		switch rest := base[i+1:]; {
		case base[i] != '_':
			b = append(b, base[i])
		case strings.HasPrefix(rest, "_"):
			b = append(b, '_')
			i++
		default:
			c, err := hex.DecodeString(rest[:min(2, len(rest))])
			if err != nil || len(c) == 0 {
				return "", false
			}
			b = append(b, c...)
			i += 2
		}
	}
	return string(b), baseName(string(b)) == base && checkName(string(b)) == nil
}
