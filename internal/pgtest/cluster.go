package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// Cluster is a server of one test. The test may crash it, let a standby follow it, and replace it
// by the standby. Unlike the shared server it has the default settings for durability: fsync and
// synchronous_commit are on. Its methods must be called by one goroutine at a time.
type Cluster struct {
	identity  identity
	programs  string
	folder    string
	port      string
	settings  []string
	process   *serverProcess
	isCrashed bool
}

// NewCluster makes and starts a Cluster. settings are "name=value". The Cluster is removed at the
// end of the test.
func NewCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	tier.Server(t)
	tier.Plain(t) // such tests wait for servers
	c, err := newCluster("pgcluster", true, settings)
	if err != nil {
		t.Fatalf("no PostgreSQL of its own: %v", err)
	}
	t.Cleanup(c.stopAndRemove)
	return c
}

// Standby makes and starts a server that follows this one. It is removed at the end of the test.
// addr is another address of this server, such as a proxy's; "" is its own. No commit waits for
// the standby until synchronous_standby_names says so.
func (c *Cluster) Standby(t testing.TB, addr string) *Cluster {
	t.Helper()
	s := &Cluster{identity: c.identity, programs: c.programs, settings: c.settings}
	if err := s.startInFolder("pgstandby", func() error { return c.backUp(t.Context(), s.dataFolder(), addr) }); err != nil {
		t.Fatalf("no standby: %v", err)
	}
	t.Cleanup(s.stopAndRemove)
	return s
}

// newCluster starts a server. If PostgreSQL is missing and bring is true, it is brought.
func newCluster(name string, bring bool, settings []string) (*Cluster, error) {
	c := &Cluster{settings: settings}
	var err error
	if c.programs, err = postgresPrograms(bring); err != nil {
		return nil, err
	}
	if c.identity, err = serverIdentity(); err != nil {
		return nil, err
	}
	if err := c.startInFolder(name, func() error { return initdb(c.identity, c.programs, c.dataFolder()) }); err != nil {
		return nil, err
	}
	return c, nil
}

// startInFolder starts the server in a folder of its own, with data that fill makes. It removes
// the folder if the server cannot start.
func (c *Cluster) startInFolder(name string, fill func() error) (err error) {
	if c.folder, err = c.identity.tempDir(name); err != nil {
		return err
	}
	if err = fill(); err != nil {
		return removeAfter(c.folder, err)
	}
	for range 3 { // the port may be taken before the start
		if c.port, err = freePort(); err != nil {
			break
		}
		if err = c.start(); err == nil {
			return nil
		}
	}
	return removeAfter(c.folder, err)
}

// Serve is [NewCluster] for programs that are not tests. It returns the data source name of a
// superuser, a URL, and a function that stops the server and removes it. If [Variable] names a
// server, Serve returns that server, and does not stop it.
func Serve(settings ...string) (dsn string, stop func(), err error) {
	if dsn = os.Getenv(Variable); dsn != "" {
		return dsn, func() {}, nil
	}
	if dsn, stop, err = Throwaway(true, settings...); err != nil {
		return "", nil, fmt.Errorf("no PostgreSQL of its own (%s names a running one): %w", Variable, err)
	}
	return dsn, stop, nil
}

// Throwaway is [Serve] without [Variable]. If PostgreSQL is missing and bring is false, the error
// is [binaries.ErrMissing].
func Throwaway(bring bool, settings ...string) (dsn string, stop func(), err error) {
	c, err := newCluster("pgserve", bring, settings)
	if err != nil {
		return "", nil, err
	}
	return c.DSN(""), c.stopAndRemove, nil
}
func (c *Cluster) dataFolder() string { return filepath.Join(c.folder, "data") }

func (c *Cluster) start() (err error) {
	args := []string{
		"-D", c.dataFolder(), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + c.port, "-c", "unix_socket_directories=" + c.folder,
		"-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "lc_messages=C", "-c", "log_destination=stderr",
		"-c", "logging_collector=off", "-c", "wal_retrieve_retry_interval=100ms", // otherwise a promotion may wait 5 s
	}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// A standby logs "ready to accept read-only connections".
	c.process, err = c.identity.startServer(c.folder, "database system is ready to accept", filepath.Join(c.programs, "postgres"), args...)
	c.isCrashed = c.isCrashed && err != nil
	return err
}

func (c *Cluster) runProgram(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(c.programs, name), args...)
	c.identity.runAs(cmd)
	cmd.Dir = c.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Addr returns the server's address. It stays the same after a restart.
func (c *Cluster) Addr() string { return net.JoinHostPort("127.0.0.1", c.port) }

// DSN returns the data source name of a superuser, a URL. addr is another address of the server,
// such as a proxy's; "" is its own.
func (c *Cluster) DSN(addr string) string {
	if addr == "" {
		addr = c.Addr()
	}
	return DSN(addr)
}

// DSN returns the data source name of a superuser, a URL, of the server at addr.
func DSN(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" }

// RestartImmediately does what pg_ctl restart -m immediate does: every process of the server ends
// at once, and the next start recovers from a crash.
func (c *Cluster) RestartImmediately() error {
	c.process.Stop()
	return c.start()
}

// Crash kills the first process of the server without a warning. The other processes notice that
// and end, too. The server stays down until Restart.
func (c *Cluster) Crash() error {
	if err := c.process.Crash(); err != nil {
		return err
	}
	c.isCrashed = true
	return nil
}

// Promote makes a standby the primary. It returns once the standby takes writes.
func (c *Cluster) Promote() error {
	return c.runProgram("pg_ctl", "promote", "-D", c.dataFolder(), "--wait")
}

// stopAndRemove ends the server and removes its folder. A killed server leaves shared memory
// behind, which the next start removes.
func (c *Cluster) stopAndRemove() {
	if c.isCrashed && c.start() != nil {
		_ = os.RemoveAll(c.folder)
		return
	}
	c.process.stopAndRemove()
}
