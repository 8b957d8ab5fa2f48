package aggregate

import (
	"fmt"
	"strings"
)

// Instructions go into every agent's prompt, so their size is bounded.
const (
	maxInstructions    = 8 << 10  // of one server
	maxAllInstructions = 32 << 10 // of a view
)

const mark = "--- instructions of server "

// instructions joins what the servers say about themselves. A server of which
// the view shows nothing says nothing either: text about tools that are not
// there makes models call them (NousResearch/hermes-agent#64101).
func (b *builder) instructions() string {
	shown := b.shown()
	var out strings.Builder
	for i := range b.view.Sources {
		if !shown[i] {
			continue
		}
		text := b.section(i)
		if text == "" || b.snap.single {
			out.WriteString(text)
			continue
		}
		text = fmt.Sprintf("%s%q ---\n%s\n", mark, b.view.Sources[i].Server, unmark(text))
		if out.Len()+len(text) > maxAllInstructions {
			b.fault(Tools, i, "", Warning, "instructions are left out: those of all servers are over the limit of %d bytes", maxAllInstructions)
			continue
		}
		out.WriteString(text)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// shown tells of which servers the view shows anything.
func (b *builder) shown() []bool {
	shown := make([]bool, len(b.view.Sources))
	for k := range kinds {
		for _, e := range b.snap.tables[k].entries {
			shown[e.src] = true
		}
	}
	return shown
}

// section returns one server's instructions, cleaned and cut.
func (b *builder) section(src int) string {
	text := b.view.Sources[src].Listing.Info.Instructions
	text = strings.TrimSuffix(clip(text, 4*maxInstructions), "…") // more is not even looked at
	text, _ = b.view.Cleaner.Text(text)
	text = strings.TrimSpace(text)
	if len(text) <= maxInstructions {
		return text
	}
	b.fault(Tools, src, "", Warning, "instructions are cut at the limit of %d bytes", maxInstructions)
	const cut = "\n[cut at 8 KiB]"
	return strings.TrimSuffix(clip(text, maxInstructions-len(cut)), "…") + cut
}

// unmark keeps a server from starting a section in another's name.
func unmark(text string) string {
	if !strings.Contains(text, "---") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimLeft(line, " \t\r"), strings.TrimSpace(mark)) {
			lines[i] = "| " + line
		}
	}
	return strings.Join(lines, "\n")
}
