package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fromTools is the path from the folder of the tools to the root of the module.
const fromTools = "../.."

// maxMockLines is the largest number of lines of all mocks together.
const maxMockLines = 500

// TestGeneratedUpToDate generates everything again and compares it with the tree. Every file of
// the tree that is marked as generated must be among the output.
func TestGeneratedUpToDate(t *testing.T) {
	t.Chdir("..") // the commands run in the module's own folder
	out := t.TempDir()
	require.NoError(t, generate(fromTools, out))
	made, lines := map[string]bool{}, 0
	visitGoFiles(t, out, func(path, text string) {
		made[path] = true
		if slices.ContainsFunc(mockFiles, func(m mockFile) bool { return m.file == path }) {
			lines += strings.Count(text, "\n")
		}
		have, err := os.ReadFile(filepath.Join(fromTools, path))
		require.NoError(t, err)
		require.Equal(t, text, string(have), "%s is not what its source says: run make generate", path)
	})
	require.GreaterOrEqual(t, len(made), len(protoFiles)+len(mockFiles))
	require.LessOrEqual(t, lines, maxMockLines, "lines of mocks: leave out what no user mocks")
	visitGoFiles(t, fromTools, func(path, text string) {
		if first, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(path, ".go") && strings.HasPrefix(first, "// Code generated") {
			require.True(t, made[path], "nothing makes %s", path)
		}
	})
}

// TestGenerateSeesAChange checks that the comparison above can fail.
func TestGenerateSeesAChange(t *testing.T) {
	t.Chdir("..")
	root, out := t.TempDir(), t.TempDir()
	files := append([]string{"go.mod"}, protoFiles...)
	for _, m := range mockFiles {
		files = append(files, m.source)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(fromTools, file))
		require.NoError(t, err)
		changed := strings.Replace(string(text), "BatchStatuses(ctx", "BatchStatusesAnew(ctx", 1)
		require.NoError(t, writeIfChanged(filepath.Join(root, file), []byte(changed)))
	}
	require.NoError(t, generate(root, out))
	made, err := os.ReadFile(filepath.Join(out, mockFiles[0].file))
	require.NoError(t, err)
	have, err := os.ReadFile(filepath.Join(fromTools, mockFiles[0].file))
	require.NoError(t, err)
	require.NotEqual(t, string(made), string(have))
	require.Contains(t, string(made), "BatchStatusesAnew")
}

func visitGoFiles(t *testing.T, root string, see func(path, text string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		see(filepath.ToSlash(rel), string(text))
		return nil
	}))
}
