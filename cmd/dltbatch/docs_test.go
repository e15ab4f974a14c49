package main

import (
	"bytes"
	"cmp"
	"encoding"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/operator"
)

var writeDocs = flag.Bool("command.write", false, "write docs/command.md from the commands' help")

// docs/command.md has the same text as the commands' help.
func TestDocs(t *testing.T) {
	a := newApp()
	root := a.root()
	var b bytes.Buffer
	fmt.Fprintf(&b, `# The command

Made from the commands' help by `+"`go test ./cmd/dltbatch -run TestDocs -command.write`"+`: change it there.

`+"```"+`
go install github.com/dltbatch/dltbatch/cmd/dltbatch@latest
`+"```"+`

Built without cgo (`+"`CGO_ENABLED=0`"+`) it is a static program, and opens SQLite files with a driver that is Go only.
`+"`dltbatch completion bash`"+` (zsh, fish, powershell) writes a script that completes commands and flags.

%s

%s
## Exit codes

| code | meaning |
|---|---|
`, root.Long, codeBlock(root.PersistentFlags().FlagUsagesWrapped(100)))
	for code, meaning := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", code, meaning)
	}
	b.WriteString(`
An error is one line on the error output. With --json it is an object there, with "error" and "code", and
the answer is one JSON value on the output: [its fields](#the-json). Fields may be added. Durations are nanoseconds, times are
RFC 3339 in UTC, and states, causes and policies are words.
`)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		if c.Runnable() && !c.HasSubCommands() {
			require.NotEmpty(t, c.Long, c.CommandPath())
			for line := range strings.Lines(c.Long + "\n" + c.UsageString()) {
				assert.LessOrEqual(t, len(strings.TrimSpace(line)), 100, "%s: %s", c.CommandPath(), line)
			}
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n%s\n\n%s", c.CommandPath(), c.Short, c.Long, codeBlock(c.UseLine()+"\n"+c.LocalNonPersistentFlags().FlagUsagesWrapped(100)))
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	for _, c := range root.Commands() {
		walk(c)
	}
	b.WriteString(answerShapes(t))
	path := filepath.Join("..", "..", "docs", "command.md")
	if *writeDocs {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "go test ./cmd/dltbatch -run TestDocs -command.write")
}

func codeBlock(s string) string {
	return "```\n" + strings.TrimRight(s, "\n") + "\n```\n"
}

// printedAnswers lists the types that the commands print with --json.
var printedAnswers = []struct {
	command string
	answer  any
}{
	{"status", statusAnswer{}}, {"causes", causesAnswer{}}, {"list", batchesAnswer{}}, {"search", operator.SearchResult{}}, {"search TEXT", operator.Lookup{}}, {"show", showAnswer{}}, {"explain", explainAnswer{}},
	{"lanes", laneList{}}, {"instances", instanceList{}}, {"history", historyList{}}, {"settings, agree", operator.Settings{}},
	{"cancel, requeue, decide, withdraw, acquit, a line of export", batch.Record{}}, {"pause, resume, policy, release", batch.Control{}},
	{"bulk preview", operator.Selection{}}, {"bulk run, resume, cancel, show", bulkAnswer{}}, {"bulk list", bulkList{}}, {"orders", ordersAnswer{}}, {"a line of export --orders", order.Record{}},
	{"migrate", schemaAnswer{}}, {"move", moveAnswer{}}, {"prune", pruneAnswer{}}, {"doctor", diagnosis{}}, {"console", consoleAnswer{}}, {"an error", failure{}},
	{"status of several shards", shardIncidents[statusAnswer]{}}, {"causes of several shards", shardIncidents[causesAnswer]{}}, {"instances of several shards", shardIncidents[instanceList]{}},
	{"doctor of several shards", shardAnswers[diagnosis]{}}, {"pause --all, resume --all of several shards", shardAnswers[batch.Control]{}},
}

// typeTitle returns the name of a type, with the package paths of its type arguments left out.
func typeTitle(r reflect.Type) string {
	return packagePaths.ReplaceAllString(strings.TrimPrefix(r.String(), "main."), "[")
}

var packagePaths = regexp.MustCompile(`\[[^\]]*/(main\.|dltbatch\.)?`)

// answerShapes returns the fields of all answers, as text for docs/command.md.
func answerShapes(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n## The JSON\n\nA field with ? may be absent. [] is a list, {} an object with names as the state or the setting.\n\n| answer of | type |\n|---|---|\n")
	var pending []reflect.Type
	seen := map[reflect.Type]bool{}
	var name func(r reflect.Type) string
	name = func(r reflect.Type) string {
		switch {
		case r.Kind() == reflect.Pointer:
			return name(r.Elem())
		case r == reflect.TypeFor[time.Time]():
			return "time"
		case r == reflect.TypeFor[time.Duration]():
			return "nanoseconds"
		case r.Implements(reflect.TypeFor[encoding.TextMarshaler]()), r.Kind() == reflect.String:
			return "text"
		case r.Kind() == reflect.Slice && r.Elem() == reflect.TypeFor[byte]():
			return "base64"
		case r.Kind() == reflect.Slice:
			return name(r.Elem()) + "[]"
		case r.Kind() == reflect.Map:
			return "{" + name(r.Elem()) + "}"
		case r.Kind() == reflect.Bool:
			return "true or false"
		case r.Kind() != reflect.Struct:
			return "number"
		}
		if !seen[r] {
			seen[r] = true
			pending = append(pending, r)
		}
		return typeTitle(r)
	}
	for _, a := range printedAnswers {
		fmt.Fprintf(&b, "| %s | `%s` |\n", a.command, name(reflect.TypeOf(a.answer)))
	}
	b.WriteString("\n| type | fields |\n|---|---|\n")
	for i := 0; i < len(pending); i++ {
		var fields []string
		for _, f := range reflect.VisibleFields(pending[i]) {
			tag, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && tag == "" || !f.IsExported() || tag == "-" {
				continue
			}
			require.NotEmpty(t, tag, "%s.%s has no name in JSON", pending[i], f.Name)
			if option != "" {
				tag += "?"
			}
			fields = append(fields, fmt.Sprintf("`%s` %s", tag, name(f.Type)))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", typeTitle(pending[i]), strings.Join(fields, ", "))
	}
	return b.String()
}

// Shell completion completes commands, states and outcomes.
func TestCompletion(t *testing.T) {
	s := &testCommand{T: t}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.NotEmpty(t, s.runOK("completion", shell))
	}
	for want, args := range map[string][]string{
		"causes": {"__complete", "cau"}, "submitting": {"__complete", "list", "--state", ""}, "not_executed_send_again": {"__complete", "decide", "b1", ""},
		"quarantined": {"__complete", "bulk", "preview", "--cause", ""}, "dequeued": {"__complete", "orders", "--state", ""},
	} {
		require.Contains(t, s.runWithInput("", args...).out, want, "%v", args)
	}
}

// Each command and flag that a page or an alert mentions exists.
func TestPagesNameCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	require.NoError(t, err)
	root := newApp().root()
	root.InitDefaultCompletionCmd()
	// A page has a command between backticks, or at the beginning of a line of a code block. Names
	// of trace spans are written in the same way, and are left out.
	span, line := regexp.MustCompile("`dltbatch ([^`\n]+)`"), regexp.MustCompile(`(?m)^dltbatch ([^\n]+)`)
	traced := []string{"attempt", "request", "query", "outcome", "final", "build", "order"}
	for _, path := range append(pages, filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "otelbatch", "alerts.yaml")) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var found [][]string
		for i, part := range strings.Split(string(text), "```") {
			switch {
			case filepath.Ext(path) == ".yaml":
				found = regexp.MustCompile(`\bdltbatch ([a-z]+)`).FindAllStringSubmatch(part, -1)
			case i%2 == 1:
				found = append(found, line.FindAllStringSubmatch(part, -1)...)
			default:
				found = append(found, span.FindAllStringSubmatch(part, -1)...)
			}
		}
		for _, f := range found {
			line, _, _ := strings.Cut(f[1], "#")
			words := strings.Fields(line)
			if slices.Contains(traced, words[0]) {
				continue
			}
			c, _, err := root.Find(words)
			if !assert.NoError(t, err, "%s: dltbatch %s", path, line) || !assert.NotEqual(t, root, c, "%s: dltbatch %s", path, line) {
				continue
			}
			for _, w := range words {
				name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
				if strings.HasPrefix(w, "--") && name != "" && name != "help" {
					assert.NotNil(t, cmp.Or(c.Flag(name), root.PersistentFlags().Lookup(name)), "%s: dltbatch %s: no flag --%s", path, line, name)
				}
			}
		}
	}
}
