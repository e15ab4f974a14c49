package dltbatch_test

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// Each comment line ends before column 100, where a tab is four columns wide. The rule leaves out
// comments behind code, long words, tables and the output of examples.
func TestCommentLines(t *testing.T) {
	tier.Plain(t)
	list, err := exec.CommandContext(t.Context(), "git", "ls-files", "*.go").Output()
	require.NoError(t, err)
	for name := range strings.FieldsSeq(string(list)) {
		src, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // the file was removed, and the removal is not committed yet
		}
		require.NoError(t, err)
		if strings.Contains(string(src[:min(len(src), 400)]), "// Code generated") {
			continue
		}
		file := token.NewFileSet().AddFile(name, -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, scanner.ScanComments)
		lines := strings.Split(string(src), "\n")
		output := -1 // the last line of an example's output
		for {
			pos, tok, text := s.Scan()
			if tok == token.EOF {
				break
			}
			at := file.Position(pos)
			if tok != token.COMMENT || strings.TrimLeft(lines[at.Line-1][:at.Column-1], "\t") != "" || !strings.HasPrefix(text, "// ") {
				continue
			}
			if at.Line == output+1 || strings.HasPrefix(text, "// Output:") || strings.HasPrefix(text, "// Unordered output:") {
				output = at.Line
				continue
			}
			indent := 4 * (at.Column - 1)
			short := indent+utf8.RuneCountInString(text) < 100 || !strings.Contains(strings.TrimLeft(text, "/ \t"), " ") || strings.Contains(text, "   ")
			assert.True(t, short, "%s:%d: %s", name, at.Line, text)
		}
	}
}
