package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Variable is the environment variable that names a running server to use instead: its data
// source name, as a URL, of a superuser. Tests make and remove schemas and databases in it.
const Variable = "DLTBATCH_TEST_POSTGRES"

// servers are the servers of one test binary.
type servers struct {
	mu       sync.Mutex
	postgres *process
	bouncer  *process
	dsn      string
	behind   string // the data source name through the bouncer
	err      error  // why the first start failed: there is no second try
}

var shared servers

// Main runs the tests of a package, stops what they started, the servers last, and returns
// the exit code, which is 1 if goroutines are left.
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

func (s *servers) start() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startLocked()
}

func (s *servers) startLocked() (string, error) {
	if s.dsn != "" || s.err != nil {
		return s.dsn, s.err
	}
	if s.dsn = os.Getenv(Variable); s.dsn == "" {
		s.postgres, s.dsn, s.err = startPostgres()
	}
	return s.dsn, s.err
}

func (s *servers) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range []*process{s.bouncer, s.postgres} {
		if p != nil {
			p.stop()
		}
	}
}

func startPostgres() (*process, string, error) {
	bin, err := installed("postgresql", postgresBin)
	if err != nil {
		return nil, "", err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, "", err
	}
	dir, err := who.tempDir("pgtest")
	if err != nil {
		return nil, "", err
	}
	data := filepath.Join(dir, "data")
	if err := initdb(who, bin, data); err != nil {
		return nil, "", discard(dir, err)
	}
	// Another process may take the port between the look and the start: then Start tries
	// another port.
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, "", discard(dir, err)
		}
		p, err := who.run(dir, "ready to accept connections", filepath.Join(bin, "postgres"), "-D", data,
			"-c", "listen_addresses=127.0.0.1", "-c", "port="+port, "-c", "unix_socket_directories="+dir,
			"-c", "max_connections=300", "-c", "shared_buffers=128MB", "-c", "lc_messages=C", "-c", "log_destination=stderr",
			"-c", "logging_collector=off", // no test needs its data after a crash of the machine:
			"-c", "fsync=off", "-c", "full_page_writes=off",
			"-c", "array_nulls=off") // a database may have this, and no test may notice
		if err == nil {
			return p, "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable", nil
		}
		if try == 3 {
			return nil, "", discard(dir, err)
		}
	}
}

// initdb makes a cluster whose default collation does not compare bytes, so that tests notice
// a column that forgets to ask for bytes.
func initdb(who identity, bin, data string) error {
	args := []string{"-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"}
	var errs []string
	for _, locale := range [][]string{{"--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"}, {"--locale=C.UTF-8"}, {"--locale=C"}} {
		cmd := exec.Command(filepath.Join(bin, "initdb"), append(slices.Clone(args), locale...)...)
		who.become(cmd)
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

// postgresBin is the folder of the newest server programs on this machine.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return majorOf(b) - majorOf(a) })
	for _, f := range found {
		if _, err := os.Stat(filepath.Join(filepath.Dir(f), "initdb")); err == nil {
			return filepath.Dir(f), nil
		}
	}
	if f, err := exec.LookPath("postgres"); err == nil {
		if f, err = filepath.EvalSymlinks(f); err == nil {
			return filepath.Dir(f), nil
		}
	}
	return "", fmt.Errorf("the server programs of PostgreSQL: %w", ErrMissing)
}

// majorOf is the version in /usr/lib/postgresql/15/bin/postgres.
func majorOf(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
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
