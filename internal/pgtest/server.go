package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Variable is the environment variable with the data source name, a URL, of a superuser of a
// running server to use instead. Tests make and remove schemas and databases in it.
const Variable = "DLTBATCH_TEST_POSTGRES"

// VersionVariable is the environment variable with the version of PostgreSQL to start: "14" to
// "18". Without it any installed version is used.
const VersionVariable = "DLTBATCH_TEST_POSTGRES_VERSION"

// sharedServers are the servers of one test binary.
type sharedServers struct {
	mu         sync.Mutex
	postgres   *Cluster
	bouncer    *serverProcess
	dsn        string
	bouncerDSN string // the data source name through PgBouncer
	startErr   error  // the error of the first start; there is no second try
}

var shared sharedServers

// Main runs the tests of a package, stops the processes that they started, the servers last, and
// returns the exit code. It is 1 if goroutines are left.
func Main(m *testing.M, stop ...func()) int {
	return leak.Check(m, append([]func(){shared.stop}, stop...)...)
}

// Start returns the data source name, a URL, of a superuser of the server.
func Start(t testing.TB) string {
	t.Helper()
	tier.Server(t)
	dsn, err := shared.start()
	if err != nil {
		t.Fatalf("no PostgreSQL to test with (%s names a running one): %v", Variable, err)
	}
	return dsn
}

// Bouncer returns the data source name, a URL, of the same server through a PgBouncer
// in transaction mode.
func Bouncer(t testing.TB) string {
	t.Helper()
	tier.Server(t)
	dsn, err := shared.startBouncer()
	if err != nil {
		t.Fatalf("no PgBouncer to test with: %v", err)
	}
	return dsn
}

func (s *sharedServers) start() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startLocked()
}

func (s *sharedServers) startLocked() (string, error) {
	if s.dsn != "" || s.startErr != nil {
		return s.dsn, s.startErr
	}
	if s.dsn = os.Getenv(Variable); s.dsn == "" {
		s.postgres, s.startErr = newCluster("pgtest", true, []string{"max_connections=300", "shared_buffers=128MB",
			"fsync=off", "full_page_writes=off", // no test needs its data after a crash of the machine
			"array_nulls=off"}) // a database may have this setting, and no test may depend on the default
		if s.startErr == nil {
			s.dsn = s.postgres.DSN("")
		}
	}
	return s.dsn, s.startErr
}

func (s *sharedServers) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bouncer != nil {
		s.bouncer.stopAndRemove()
	}
	if s.postgres != nil {
		s.postgres.stopAndRemove()
	}
}

// initdb makes the server's data with a default collation that does not compare bytes, so that
// tests notice a column without COLLATE "C".
func initdb(who identity, bin, data string) error {
	args := []string{"-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"}
	var errs []string
	for _, locale := range [][]string{{"--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"}, {"--locale=C.UTF-8"}, {"--locale=C"}} {
		cmd := exec.Command(filepath.Join(bin, "initdb"), append(slices.Clone(args), locale...)...)
		who.runAs(cmd)
		cmd.Dir = filepath.Dir(data)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Sprintf("initdb %v: %v: %s", locale, err, out))
		if err := os.RemoveAll(data); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s", strings.Join(errs, "\n"))
}

// postgresPrograms returns the folder of PostgreSQL's programs. If they are missing and bring is
// true, it brings them.
func postgresPrograms(bring bool) (string, error) {
	p, err := binaries.PostgreSQL(os.Getenv(VersionVariable))
	if err != nil {
		return "", fmt.Errorf("%s: %w", VersionVariable, err)
	}
	find := p.Find
	if bring {
		find = p.Bring
	}
	bin, err := find()
	if err == nil {
		bin, err = filepath.EvalSymlinks(bin) // initdb is beside the program itself, not beside the link
	}
	return filepath.Dir(bin), err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", err
	}
	return port, l.Close()
}
