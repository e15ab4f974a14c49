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

// Cluster is a server of one test. The test may crash it, let a standby follow it, and
// replace it by the standby. Unlike the shared server it keeps the defaults about durability:
// fsync and synchronous_commit are on. One goroutine at a time calls its methods.
type Cluster struct {
	who      identity
	bin      string
	dir      string
	port     string
	settings []string
	p        *process
	crashed  bool
}

// NewCluster makes and starts a Cluster. settings are "name=value". The end of the test
// removes it.
func NewCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	tier.Server(t)
	tier.Plain(t) // such tests wait for servers
	c, err := newCluster("pgcluster", true, settings)
	if err != nil {
		t.Fatalf("no PostgreSQL of its own: %v", err)
	}
	t.Cleanup(c.stop)
	return c
}

// Standby makes a server that follows this one, and starts it. The end of the test removes
// it. addr is another address of this server, a proxy's; "" is its own. No commit waits for
// the standby until synchronous_standby_names says so.
func (c *Cluster) Standby(t testing.TB, addr string) *Cluster {
	t.Helper()
	s := &Cluster{who: c.who, bin: c.bin, settings: c.settings}
	if err := s.open("pgstandby", func() error { return c.backUp(t.Context(), s.data(), addr) }); err != nil {
		t.Fatalf("no standby: %v", err)
	}
	t.Cleanup(s.stop)
	return s
}

// newCluster starts a server. Where PostgreSQL is missing, bring says whether it is brought.
func newCluster(name string, bring bool, settings []string) (*Cluster, error) {
	c := &Cluster{settings: settings}
	var err error
	if c.bin, err = programs(bring); err != nil {
		return nil, err
	}
	if c.who, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := c.open(name, func() error { return initdb(c.who, c.bin, c.data()) }); err != nil {
		return nil, err
	}
	return c, nil
}

// open starts the server in a folder of its own, whose data fill makes. It leaves nothing of a
// server that cannot start.
func (c *Cluster) open(name string, fill func() error) (err error) {
	if c.dir, err = c.who.tempDir(name); err != nil {
		return err
	}
	if err = fill(); err != nil {
		return removeAfter(c.dir, err)
	}
	for range 3 { // the port may be taken between the test and the start
		if c.port, err = freePort(); err != nil {
			break
		}
		if err = c.start(); err == nil {
			return nil
		}
	}
	return removeAfter(c.dir, err)
}

// Serve is [NewCluster] for programs that are no tests: it returns the data source name, a
// URL, of a superuser, and a function that stops the server and removes it. If [Variable]
// names a server, Serve uses that server as it is, and does not stop it.
func Serve(settings ...string) (dsn string, stop func(), err error) {
	if dsn = os.Getenv(Variable); dsn != "" {
		return dsn, func() {}, nil
	}
	if dsn, stop, err = Throwaway(true, settings...); err != nil {
		return "", nil, fmt.Errorf("no PostgreSQL of its own (%s names a running one): %w", Variable, err)
	}
	return dsn, stop, nil
}

// Throwaway is [Serve] without [Variable]. Unless bring is set, it brings nothing: where
// PostgreSQL is missing, the error is [binaries.ErrMissing].
func Throwaway(bring bool, settings ...string) (dsn string, stop func(), err error) {
	c, err := newCluster("pgserve", bring, settings)
	if err != nil {
		return "", nil, err
	}
	return c.DSN(""), c.stop, nil
}
func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) start() (err error) {
	args := []string{
		"-D", c.data(), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + c.port, "-c", "unix_socket_directories=" + c.dir,
		"-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "lc_messages=C", "-c", "log_destination=stderr",
		"-c", "logging_collector=off", "-c", "wal_retrieve_retry_interval=100ms", // or a promotion may wait 5 s
	}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// A standby says "ready to accept read-only connections".
	c.p, err = c.who.run(c.dir, "database system is ready to accept", filepath.Join(c.bin, "postgres"), args...)
	c.crashed = c.crashed && err != nil
	return err
}

func (c *Cluster) command(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	c.who.runAs(cmd)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Addr returns the server's address. It stays the same after a restart.
func (c *Cluster) Addr() string { return net.JoinHostPort("127.0.0.1", c.port) }

// DSN returns the data source name, a URL, of a superuser. addr is another address of the server,
// a proxy's; "" is its own.
func (c *Cluster) DSN(addr string) string {
	if addr == "" {
		addr = c.Addr()
	}
	return DSN(addr)
}

// DSN is the data source name, a URL, of a superuser of a server at an address.
func DSN(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" }

// Restart does the same as pg_ctl restart -m immediate: every process of the server ends at
// once, and the next start has a crash to recover from.
func (c *Cluster) Restart() error {
	c.p.Stop()
	return c.start()
}

// Crash kills the first process of the server without a warning; the others notice and end,
// too. The server stays down until Restart.
func (c *Cluster) Crash() error {
	if err := c.p.Crash(); err != nil {
		return err
	}
	c.crashed = true
	return nil
}

// Promote makes a standby take writes. It returns once the standby does.
func (c *Cluster) Promote() error {
	return c.command("pg_ctl", "promote", "-D", c.data(), "--wait")
}

// stop ends the server and removes its folder. A killed server has left shared memory behind,
// which its next start takes away.
func (c *Cluster) stop() {
	if c.crashed && c.start() != nil {
		_ = os.RemoveAll(c.dir)
		return
	}
	c.p.stop()
}
