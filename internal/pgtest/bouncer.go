package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/dltbatch/dltbatch/internal/binaries"
)

func (s *sharedServers) startBouncer() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dsn, err := s.startLocked()
	if err != nil || s.bouncerDSN != "" {
		return s.bouncerDSN, err
	}
	s.bouncer, s.bouncerDSN, err = runBouncer(dsn)
	return s.bouncerDSN, err
}

// ServeBouncer starts a PgBouncer in transaction mode before the server of dsn, for programs that
// are not tests. It returns the data source name through PgBouncer, a URL, and a function that
// stops it.
func ServeBouncer(dsn string) (behind string, stop func(), err error) {
	p, behind, err := runBouncer(dsn)
	if err != nil {
		return "", nil, fmt.Errorf("no PgBouncer of its own: %w", err)
	}
	return behind, p.stopAndRemove, nil
}

// bouncerConfig lets PgBouncer run in transaction mode, with fewer connections to the server than
// the tests have to PgBouncer, so that transactions of one client use different connections.
const bouncerConfig = `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 1000
server_reset_query =
ignore_startup_parameters = extra_float_digits
`

func runBouncer(dsn string) (*serverProcess, string, error) {
	to, err := url.Parse(dsn)
	if err != nil {
		return nil, "", fmt.Errorf("%s is no URL: %w", Variable, err)
	}
	bin, err := binaries.PgBouncer().Bring()
	if err != nil {
		return nil, "", err
	}
	who, err := serverIdentity()
	if err != nil {
		return nil, "", err
	}
	dir, err := who.tempDir("pgbouncer")
	if err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", removeAfter(dir, err)
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(bouncerConfig, to.Hostname(), to.Port(), to.User.Username(), port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, "", removeAfter(dir, err)
	}
	p, err := who.startServer(dir, "process up", bin, config)
	if err != nil {
		return nil, "", removeAfter(dir, err)
	}
	to.Host = "127.0.0.1:" + port
	return p, to.String(), nil
}
