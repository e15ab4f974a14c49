package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var write = flag.Bool("command.write", false, "write docs/command.md from the commands' help")

// docs/command.md is made from the help.
func TestDocs(t *testing.T) {
	a := newApp()
	root := a.root()
	var b bytes.Buffer
	fmt.Fprintf(&b, `# The command

Made from the commands' help by `+"`go test ./cmd/dltbatch -run TestDocs -command.write`"+`: change it there.

`+"```"+`
go install github.com/dltbatch/dltbatch/cmd/dltbatch@latest
`+"```"+`

Built without cgo (`+"`CGO_ENABLED=0`"+`) it is a static program for PostgreSQL. Built with cgo it opens SQLite files, too.
`+"`dltbatch completion bash`"+` (zsh, fish, powershell) writes a script that completes commands and flags.

%s

%s
## Exit codes

| code | meaning |
|---|---|
`, root.Long, block(root.PersistentFlags().FlagUsages()))
	for code, meaning := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", code, meaning)
	}
	b.WriteString(`
An error is one line on the error output. With --json it is an object there, with "error" and "code", and
the answer is one JSON value on the output. Its types are Go types of this module, whose fields have their
JSON names: fields may be added, and are not removed or changed. Durations are nanoseconds, times are
RFC 3339 in UTC, and states, causes and policies are words.
`)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		if c.Runnable() {
			require.NotEmpty(t, c.Long, c.CommandPath())
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n%s\n\n%s", c.CommandPath(), c.Short, c.Long, block(c.UseLine()+"\n"+c.LocalNonPersistentFlags().FlagUsages()))
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	for _, c := range root.Commands() {
		walk(c)
	}
	path := filepath.Join("..", "..", "docs", "command.md")
	if *write {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "go test ./cmd/dltbatch -run TestDocs -command.write")
}

func block(s string) string {
	return "```\n" + strings.TrimRight(s, "\n") + "\n```\n"
}
