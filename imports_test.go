package dltbatch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

const modulePath = "github.com/dltbatch/dltbatch"

// allowedImports lists the packages of this module that each part may import
// (docs/design.md#packages). A part without an entry may import anything.
var allowedImports = []struct {
	part    string // a package, or a folder with everything below it if it ends in "/"
	imports []string
}{
	{"batch", []string{"internal/redact"}},
	{"internal/redact", nil},
	{"internal/isnil", nil},
	{"internal/pages", nil},
	{"store", []string{"batch"}},
	{"dlt", []string{"batch", "internal/isnil"}},
	{"batch/autobatch/order", []string{"batch", "store"}},
	{"store/memory", []string{"batch", "batch/autobatch/order", "store"}},
	{"store/sqlite/", []string{"batch", "batch/autobatch/order", "store", "store/sqlite/", "internal/sqlstore"}},
	{"store/postgres/", []string{"batch", "batch/autobatch/order", "store", "store/postgres/", "internal/sqlstore", "internal/position", "internal/pgsettings"}},
	{"internal/pgsettings", nil},
	{"internal/sqlstore", []string{"batch", "batch/autobatch/order", "store"}},
	{"dlt/memory", []string{"batch", "dlt"}},
	{"dlt/internal/wire", []string{"batch", "dlt"}},
	{"dlt/internal/simnode", nil},
	{"dlt/sawtooth", []string{"batch", "batch/autobatch/order", "dlt", "dlt/internal/wire", "dlt/sawtooth/internal/", "internal/redact", "internal/isnil"}},
	{"dlt/splinter", []string{"batch", "dlt", "dlt/internal/wire", "dlt/sawtooth", "internal/redact"}}, // shares Sawtooth's formats
	{"dlt/canton", []string{"batch", "batch/autobatch/order", "dlt", "dlt/internal/wire", "internal/redact"}},
	{"dlt/evm/internal/evmtx", []string{"batch"}},
	{"dlt/evm", []string{"batch", "dlt", "dlt/internal/wire", "dlt/evm/internal/evmtx", "internal/redact", "internal/isnil"}},
	{"internal/traces", []string{"batch", "internal/loop"}},
	{"batch/autobatch", []string{"internal/traces", "batch", "batch/autobatch/order", "store", "dlt", "health", "internal/loop", "internal/await", "internal/hints", "internal/isnil", "internal/legible"}},
	{"internal/legible", nil},
	{"internal/release", nil},
	{"queuer", []string{"batch", "store", "internal/loop"}},
	{"submitter", []string{"batch", "store", "dlt"}},
	{"monitor", []string{"batch", "store", "dlt"}},
	{"internal/ask", []string{"batch", "store", "dlt", "monitor", "internal/inhand", "internal/loop", "internal/pool", "internal/wall"}},
	{"internal/position", []string{"batch"}},
	{"internal/pool", nil},
	{"health", []string{"batch", "dlt", "internal/incident"}},
	{"probe", []string{"health", "store", "internal/isnil"}},
	{"otelbatch", []string{"batch", "batch/autobatch/order", "batch/autobatch", "store", "dlt", "health"}}, // and also the root package
	{"internal/loop", nil},
	{"internal/events", []string{"internal/traces", "batch", "store", "dlt", "health", "internal/loop", "internal/inhand", "internal/legible"}},
	{"internal/await", []string{"batch", "internal/loop"}},
	{"internal/hints", []string{"batch", "store", "internal/deaf", "internal/loop"}},
	{"internal/lanes", []string{"batch", "internal/loop"}},
	{"internal/submit", []string{"batch", "store", "dlt", "submitter", "internal/loop", "internal/pool", "internal/wall"}},
	{"internal/claim", []string{"batch", "store", "queuer", "internal/lanes", "internal/loop", "internal/wall"}},
	{"internal/inhand", []string{"batch", "store", "dlt", "internal/loop"}},
	{"internal/explain", []string{"batch", "store", "internal/incident", "internal/legible"}},
	{"internal/acts", []string{"batch", "store"}},
	{"internal/incident", []string{"batch"}},
	{"operator", []string{"batch", "batch/autobatch/order", "store", "internal/acts", "internal/explain", "internal/incident", "internal/relied", "internal/texts", "internal/isnil", "internal/legible", "internal/pages"}},
	{"internal/totals", []string{"batch", "store"}},
	{"internal/desks", []string{"batch", "store", "operator", "internal/totals"}},
	{"console", []string{"batch", "batch/autobatch/order", "store", "operator", "internal/desks", "internal/incident", "internal/loop", "internal/legible"}},
	{"cmd/dltbatch", []string{"batch", "batch/autobatch/order", "store", "operator", "console", "store/postgres", "store/postgres/native", "store/sqlite", "store/sqlite/sqliteopen", "internal/desks", "internal/incident", "internal/moving", "internal/release", "internal/pgsettings", "internal/redact", "internal/legible"}},
	{"internal/moving", []string{"batch", "store", "store/postgres", "store/postgres/native", "internal/pgsettings", "internal/sqlstore"}},
	{"shards", []string{"batch", "store", "internal/totals"}}, // and also the root package
	{"internal/relied", []string{"batch", "store", "dlt", "queuer"}},
	{"internal/texts", []string{"batch", "store"}},
	{"internal/groups", []string{"batch", "store", "internal/loop", "internal/inhand"}},
	{"internal/engine", []string{"batch", "store", "dlt", "health", "queuer", "submitter", "monitor", "internal/"}},
}

type listedPackage struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Deps       []string
}

func goList(t *testing.T, args ...string) []listedPackage {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard,Deps"}, args...)...).Output()
	require.NoError(t, err)
	var all []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listedPackage
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, l)
	}
}

func inPart(pkg, part string) bool {
	if folder, ok := strings.CutSuffix(part, "/"); ok {
		return pkg == folder || strings.HasPrefix(pkg, part)
	}
	return pkg == part
}

// Each package imports only the packages that house allows it.
func TestAllowedImports(t *testing.T) {
	tier.Plain(t)
	packages := goList(t, "./...")
	for _, room := range allowedImports {
		found := false
		for _, p := range packages {
			pkg := strings.TrimPrefix(p.ImportPath, modulePath+"/")
			if !inPart(pkg, room.part) {
				continue
			}
			found = true
			for _, imported := range p.Imports {
				inner, ours := strings.CutPrefix(imported, modulePath+"/")
				if !ours {
					continue
				}
				allowed := false
				for _, may := range room.imports {
					allowed = allowed || inPart(inner, may)
				}
				require.True(t, allowed, "%s imports %s", pkg, inner)
			}
		}
		require.True(t, found, "%s is gone: keep this table up to date", room.part)
	}
}

// The lowest packages import only the standard library. Only the packages that need them import
// cgo, testing, drivers, pgx, OpenTelemetry's API or sqlx, and none imports OpenTelemetry's SDK.
// Only the command imports the library for commands.
func TestWhatImportersGet(t *testing.T) {
	tier.Plain(t)
	standard := map[string]bool{}
	for _, p := range goList(t, "-deps", "./...") {
		standard[p.ImportPath] = p.Standard
	}
	for _, p := range goList(t, "./...") {
		pkg := strings.TrimPrefix(p.ImportPath, modulePath+"/")
		production := !strings.HasPrefix(pkg, "internal/") && !strings.HasPrefix(pkg, "examples/") &&
			!strings.HasSuffix(pkg, "test") && !strings.HasSuffix(pkg, "mock")
		command := strings.HasPrefix(pkg, "cmd/")
		for _, dep := range p.Deps {
			if !command {
				require.NotContains(t, dep, "spf13/", "%s links the command-line library", pkg)
			}
			if pkg == "batch" {
				require.True(t, standard[dep] || dep == modulePath+"/internal/redact", "batch depends on %s", dep)
			}
			if production {
				require.NotEqual(t, "testing", dep, "%s imports testing", pkg)
				require.NotContains(t, dep, "testify", "%s imports testify", pkg)
				if pkg != "store/postgres/native" && !command {
					require.NotContains(t, dep, "jackc/", "%s links pgx", pkg)
				}
				if !strings.HasPrefix(pkg, "store/sqlite") && !strings.HasPrefix(pkg, "store/postgres") && !command {
					require.NotContains(t, dep, "sqlx", "%s links sqlx", pkg)
				}
				if pkg != "otelbatch" {
					require.NotContains(t, dep, "opentelemetry", "%s links OpenTelemetry", pkg)
				}
				require.NotContains(t, dep, "opentelemetry.io/otel/sdk", "%s links an SDK", pkg)
				if pkg != "store/sqlite/sqliteopen" && !command {
					require.NotContains(t, dep, "go-sqlite3", "%s needs cgo", pkg)
					require.NotContains(t, dep, "modernc.org", "%s links SQLite", pkg)
				}
			}
		}
	}
}

// A program that does not import dlt/evm gets none of its dependencies, and a program that imports
// dlt/evm gets few packages of other modules.
func TestWhatEVMBrings(t *testing.T) {
	tier.Plain(t)
	foreign := func(patterns ...string) (out []string) {
		for _, p := range goList(t, append([]string{"-deps"}, patterns...)...) {
			if !p.Standard && !strings.HasPrefix(p.ImportPath, modulePath) {
				out = append(out, p.ImportPath)
			}
		}
		return out
	}
	with := foreign("./dlt/evm")
	require.LessOrEqual(t, len(with), 8, "%v", with) // four belong to the WebSocket library
	require.Contains(t, with, "golang.org/x/crypto/sha3")
	for _, p := range goList(t, "./...") {
		pkg := strings.TrimPrefix(p.ImportPath, modulePath+"/")
		if pkg == "dlt/evm" || strings.HasPrefix(pkg, "dlt/evm/") || strings.HasPrefix(pkg, "examples/") {
			continue
		}
		for _, dep := range p.Deps {
			require.False(t, strings.HasPrefix(dep, "golang.org/x/crypto"), "%s imports %s", pkg, dep)
			require.False(t, strings.HasPrefix(dep, modulePath+"/dlt/evm"), "%s imports %s", pkg, dep)
		}
	}
}
