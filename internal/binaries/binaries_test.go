package binaries

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

const script = "#!/bin/sh\necho program 1.2.3\n"

// tarball returns a package with a program, and with a script that must not run.
func tarball(t *testing.T) []byte {
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	w := tar.NewWriter(z)
	for _, file := range [][2]string{
		{"package.json", `{"name": "fake", "version": "1.2.3", "scripts": {"postinstall": "touch ran"}}`},
		{"bin/program", script},
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "package/" + file[0], Mode: 0o755, Size: int64(len(file[1]))}))
		_, err := w.Write([]byte(file[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return text.Bytes()
}

func hashOf(text []byte) string {
	sum := sha512.Sum512(text)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// registry serves the package fake as a registry of npm does, with sent in place of its tarball.
// asked counts how often the tarball is asked for. The test has an empty cache.
func registry(t *testing.T, sent []byte) (asked *atomic.Int64) {
	tier.Server(t) // starts npm
	tier.Plain(t)
	asked = new(atomic.Int64)
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("GET /fake", func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"name": "fake", "versions": map[string]any{"1.2.3": map[string]any{
			"name": "fake", "version": "1.2.3", "dist": map[string]any{"tarball": s.URL + "/fake.tgz"},
		}}}))
	})
	mux.HandleFunc("GET /fake.tgz", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, err := w.Write(sent)
		assert.NoError(t, err)
	})
	t.Setenv("npm_config_registry", s.URL)
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_fetch_retries", "0")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return asked
}

func fake(t *testing.T) Program {
	return Program{name: "no-such-program", variable: "NO_SUCH_PROGRAM", file: "bin/program", npm: npmPackage{"fake", "1.2.3", hashOf(tarball(t))}}
}

// The program is downloaded once, however many callers want it at once. Afterwards no registry is
// needed, and the leftovers of an interrupted process are removed.
func TestBring(t *testing.T) {
	asked := registry(t, tarball(t))
	p := fake(t)
	p.setupCommands = "touch ready && chmod 666 ready"
	_, err := p.Find()
	require.ErrorIs(t, err, ErrMissing)
	left := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "dltbatch", "part-1")
	require.NoError(t, os.MkdirAll(left, 0o700))
	var all errgroup.Group
	for range 3 {
		all.Go(func() error {
			found, err := p.Bring()
			if err == nil {
				_, err = run("", found)
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
	require.EqualValues(t, 1, asked.Load())
	online := os.Getenv("npm_config_registry")
	t.Setenv("npm_config_registry", "http://127.0.0.1:1")
	found, err := p.Bring()
	require.NoError(t, err)
	home := filepath.Dir(filepath.Dir(found))
	ready, err := os.Stat(filepath.Join(home, "ready"))
	require.NoError(t, err)
	require.EqualValues(t, 0o644, ready.Mode(), "others may write to it")
	require.NoFileExists(t, filepath.Join(home, "ran"), "a script of the package")
	require.NoDirExists(t, left)
	t.Setenv("npm_config_registry", online)
	require.NoError(t, os.Remove(found))
	_, err = p.Bring()
	require.NoError(t, err, "a part of it was removed")
}

// If the tarball is not the one that npm.sum names, nothing of it is kept.
func TestBringNothing(t *testing.T) {
	whole := tarball(t)
	for name, tc := range map[string]struct {
		spoil func(p *Program) []byte
		said  string
	}{
		"other hash":  {func(p *Program) []byte { p.npm.hash = hashOf([]byte("other")); return whole }, "EINTEGRITY"},
		"cut off":     {func(*Program) []byte { return whole[:len(whole)/2] }, "EINTEGRITY"},
		"no program":  {func(p *Program) []byte { p.file = "bin/other"; return whole }, "bin/other"},
		"not set up":  {func(p *Program) []byte { p.setupCommands = "false\ntrue"; return whole }, "sh -ec false"},
		"no package":  {func(p *Program) []byte { p.npm = npmPackage{}; return whole }, runtime.GOARCH},
		"no versions": {func(p *Program) []byte { p.npm.version = "2.0.0"; return whole }, "ETARGET"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fake(t)
			registry(t, tc.spoil(&p))
			_, err := p.Bring()
			require.ErrorIs(t, err, ErrMissing)
			for _, said := range []string{p.name, p.variable, os.Getenv("XDG_CACHE_HOME"), "Bringing it failed: ", tc.said} {
				require.ErrorContains(t, err, said)
			}
			left, err := os.ReadDir(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "dltbatch"))
			require.NoError(t, err)
			require.Len(t, left, 1, "more than the lock")
		})
	}
}

// A command of a Go module is compiled in the given version. If there is no such version, nothing
// is kept.
func TestBringACommand(t *testing.T) {
	tier.Server(t) // links a program
	tier.Plain(t)
	const module = "example.test/fake"
	proxy := filepath.Join(t.TempDir(), "example.test", "fake", "@v")
	require.NoError(t, os.MkdirAll(proxy, 0o755))
	mod := "module " + module + "\n"
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, text := range map[string]string{"go.mod": mod, "cmd/program/main.go": "package main\n\nfunc main() { print(\"program 1.2.3\") }\n"} {
		w, err := z.Create(module + "@v1.2.3/" + name)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	for name, text := range map[string]string{"list": "v1.2.3\n", "v1.2.3.info": `{"Version": "v1.2.3"}`, "v1.2.3.mod": mod, "v1.2.3.zip": packed.String()} {
		require.NoError(t, os.WriteFile(filepath.Join(proxy, name), []byte(text), 0o600))
	}
	t.Setenv("GOPROXY", "file://"+strings.TrimSuffix(proxy, "/"+module+"/@v"))
	t.Setenv("GONOSUMDB", "example.test")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := Program{name: "program", variable: "NO_SUCH_PROGRAM", versionText: " 1.2.3", mod: module + "/cmd/program@v1.2.3", file: "program"}
	found, err := p.Bring()
	require.NoError(t, err)
	said, err := run("", found)
	require.NoError(t, err)
	require.Equal(t, "program 1.2.3", said)
	p.mod = module + "/cmd/program@v2.0.0"
	_, err = p.Bring()
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, p.mod)
}

// The program that the variable names comes first, and must exist. Then comes the one on the PATH,
// if its --version has the expected text.
func TestFind(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path, elsewhere := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "program")
	for _, file := range []string{path, elsewhere} {
		require.NoError(t, os.WriteFile(file, []byte(script), 0o755))
	}
	t.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	p := Program{name: "program", variable: "PROGRAM", versionText: " 1.2.3\n", otherPlaces: []string{elsewhere}}
	requireFound := func(want string) {
		found, err := p.Bring()
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	requireFound(path)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho program 1.2.30\n"), 0o755))
	requireFound(elsewhere)
	t.Setenv("PROGRAM", path)
	requireFound(path)
	t.Setenv("PROGRAM", "/nowhere/program")
	_, err := p.Bring()
	require.ErrorContains(t, err, "PROGRAM")
	require.NotErrorIs(t, err, ErrMissing)
}

// A cache into which another user could put programs is not used.
func TestTheCacheIsOurOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(cache string) error
		said string
	}{
		"writable": {func(cache string) error { return os.Chmod(cache, 0o777) }, "drwxrwxrwx"},
		"a group":  {func(cache string) error { return os.Chmod(cache, 0o775) }, "drwxrwxr-x"},
		"a link": {func(cache string) error {
			return errors.Join(os.Rename(cache, cache+"-there"), os.Symlink(cache+"-there", cache))
		}, "Lrwx"},
		"a file": {func(cache string) error { return errors.Join(os.RemoveAll(cache), os.WriteFile(cache, nil, 0o600)) }, "-rw-------"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			p := fake(t)
			cache := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "dltbatch")
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(cache, p.key(), p.pathInPackage())), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(cache, p.key(), p.pathInPackage()), []byte(script), 0o755))
			_, err := p.Find()
			require.NoError(t, err)
			require.NoError(t, tc.make(cache))
			for _, find := range []func() (string, error){p.Find, p.Bring} {
				_, err = find()
				require.ErrorContains(t, err, cache)
				require.ErrorContains(t, err, tc.said)
				require.NotErrorIs(t, err, ErrMissing)
			}
		})
	}
}

// Every package in npm.sum has a hash, and no address.
func TestSums(t *testing.T) {
	for line := range strings.Lines(npmSums) {
		name, hash, _ := strings.Cut(line, " ")
		require.Regexp(t, `^(@[a-z-]+/)?[a-z0-9-]+@[0-9a-z.-]+$`, name)
		require.Regexp(t, `^sha512-[A-Za-z0-9+/]{86}==\n$`, hash)
	}
}

// Each package of PyPI has a version, and a hash for each of its files.
func TestRequirements(t *testing.T) {
	for _, text := range Patroni().pypi {
		for line := range strings.Lines(strings.ReplaceAll(text, " \\\n", "")) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "--only-binary") {
				require.Regexp(t, `^[A-Za-z0-9_-]+==[0-9a-z.]+( +--hash=sha256:[0-9a-f]{64})+\n$`, line)
			}
		}
	}
}

// An unknown version is refused, and the error names the known ones.
func TestVersions(t *testing.T) {
	for _, major := range []string{"", "14", "15", "16", "17", "18"} {
		_, err := PostgreSQL(major)
		require.NoError(t, err)
	}
	_, err := PostgreSQL("13")
	require.ErrorContains(t, err, `"13"`)
	require.ErrorContains(t, err, "14")
}
