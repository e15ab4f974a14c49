package pgtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/daemon"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Patroni is a cluster of three nodes. They keep their state in Patroni's own Raft, without
// another store. Each node stands for a machine: a test can kill it, freeze it, and cut it off.
type Patroni struct {
	Nodes            []*Node
	identity         identity
	postgresPrograms string // folder of PostgreSQL's programs
	patroniProgram   string // path of Patroni
}

// Node is a machine of [Patroni]: PostgreSQL and the Patroni that manages it.
type Node struct {
	Name       string
	cluster    *Patroni
	folder     string
	ownAddrs   [3]string // addresses of PostgreSQL, of Patroni's REST API and of its Raft
	peerAddrs  [3]string // the same addresses as other nodes reach them
	configFile string
	logFile    *os.File
	cmd        *exec.Cmd // nil while the node is down
	ended      <-chan struct{}
}

// The indexes of a node's addresses.
const (
	NodePostgres = iota
	NodeREST
	NodeRaft
)

// PrimaryTTL is Patroni's ttl: how long a primary that Patroni cannot reach stays the primary.
const PrimaryTTL = 20 * time.Second // the least that Patroni accepts

// NewPatroni makes and starts a cluster, and returns once it has a primary and two standbys. reach
// returns the address by which other nodes reach an address of a node, for example a proxy's. The
// cluster is removed at the end of the test.
func NewPatroni(t testing.TB, synchronous bool, reach func(node, place int, own string) string) *Patroni {
	t.Helper()
	tier.Server(t)
	c, err := newPatroni(synchronous, reach)
	if c != nil {
		t.Cleanup(c.stop)
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		t.Fatalf("no cluster by Patroni: %v", err)
	}
	return c
}

func newPatroni(synchronous bool, reach func(node, place int, own string) string) (c *Patroni, err error) {
	c = &Patroni{}
	if c.patroniProgram, err = binaries.Patroni().Bring(); err != nil {
		return nil, err
	}
	if c.postgresPrograms, err = postgresPrograms(true); err != nil {
		return nil, err
	}
	// npm's package has neither program.
	for _, program := range []string{"pg_basebackup", "pg_rewind"} {
		if _, err := os.Stat(filepath.Join(c.postgresPrograms, program)); err != nil {
			return nil, fmt.Errorf("Patroni needs %s beside the server: install PostgreSQL's own packages: %w", program, err)
		}
	}
	if c.identity, err = serverIdentity(); err != nil {
		return nil, err
	}
	for i := range 3 {
		n := &Node{Name: fmt.Sprint("node", i), cluster: c}
		c.Nodes = append(c.Nodes, n)
		if n.folder, err = c.identity.tempDir("patroni"); err != nil {
			return c, err
		}
		for place := range n.ownAddrs {
			port, err := freePort()
			if err != nil {
				return c, err
			}
			n.ownAddrs[place] = net.JoinHostPort("127.0.0.1", port)
			n.peerAddrs[place] = reach(i, place, n.ownAddrs[place])
		}
	}
	for _, n := range c.Nodes {
		text, err := json.Marshal(n.settings(synchronous)) // JSON is YAML, too
		if err != nil {
			return c, err
		}
		n.configFile = filepath.Join(n.folder, "patroni.yml")
		if err := c.identity.writeFile(n.configFile, text); err != nil {
			return c, err
		}
	}
	return c, nil
}

// settings returns Patroni's settings: the shortest times, and the defaults for the rest.
func (n *Node) settings(synchronous bool) map[string]any {
	type m = map[string]any
	var partners []string
	for _, o := range n.cluster.Nodes {
		if o != n {
			partners = append(partners, o.peerAddrs[NodeRaft])
		}
	}
	return m{
		"scope": "dltbatch", "name": n.Name,
		"restapi": m{"listen": n.ownAddrs[NodeREST], "connect_address": n.peerAddrs[NodeREST]},
		"raft": m{
			"data_dir": filepath.Join(n.folder, "raft"), "bind_addr": n.ownAddrs[NodeRaft], "self_addr": n.peerAddrs[NodeRaft], "partner_addrs": partners,
		},
		"bootstrap": m{
			"dcs": m{
				"ttl": int(PrimaryTTL.Seconds()), "loop_wait": 1, "retry_timeout": 3, "synchronous_mode": synchronous,
				"postgresql": m{"use_pg_rewind": true, "parameters": m{"max_connections": 200, "wal_log_hints": "on"}},
			},
			"initdb": []any{m{"encoding": "UTF8"}, m{"locale": "C"}, "no-sync"},
		},
		"postgresql": m{
			"listen": n.ownAddrs[NodePostgres], "connect_address": n.peerAddrs[NodePostgres],
			"data_dir": filepath.Join(n.folder, "data"), "bin_dir": n.cluster.postgresPrograms, "pgpass": filepath.Join(n.folder, "pgpass"),
			"authentication": m{"superuser": m{"username": "postgres"}, "replication": m{"username": "follower"}},
			"pg_hba":         []string{"local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"},
			// A machine that is killed in a test loses no page that it has written, so fsync is
			// off.
			"parameters": m{
				"unix_socket_directories": n.folder, "shared_buffers": "32MB", "lc_messages": "C", "fsync": "off", "wal_retrieve_retry_interval": "100ms",
			},
			"remove_data_directory_on_rewind_failure": true, "remove_data_directory_on_diverged_timelines": true,
		},
	}
}

// start starts all nodes, and waits for a primary that two standbys follow.
func (c *Patroni) start() error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if p := c.Primary(); p != nil && c.countFollowers(p) == len(c.Nodes)-1 {
			return nil
		}
	}
	return errors.Join(errors.New("no primary with two standbys after 2 minutes"), c.LogEnds())
}

// countFollowers returns how many standbys follow the primary p, according to Patroni.
func (c *Patroni) countFollowers(p *Node) (n int) {
	var cluster struct {
		Members []struct {
			Role  string `json:"role"`
			State string `json:"state"`
		} `json:"members"`
	}
	if p.askPatroni("/cluster", &cluster) != nil {
		return 0
	}
	for _, m := range cluster.Members {
		if m.State == "streaming" {
			n++
		}
	}
	return n
}

// IsWhole reports whether there is a primary that all other nodes follow.
func (c *Patroni) IsWhole() bool {
	p := c.Primary()
	return p != nil && c.countFollowers(p) == len(c.Nodes)-1
}

// Primary returns the node that reports to be the primary, or nil. During a partition there may be
// two for some seconds, and it returns one of them.
func (c *Patroni) Primary() *Node {
	for _, n := range c.Nodes {
		if n.IsPrimary() {
			return n
		}
	}
	return nil
}

// LogEnds returns, as an error, the end of each Patroni's log.
func (c *Patroni) LogEnds() error {
	var errs []error
	for _, n := range c.Nodes {
		if n.logFile == nil {
			continue // the node was not started
		}
		text, _ := os.ReadFile(n.logFile.Name())
		errs = append(errs, fmt.Errorf("%s: %s", n.Name, text[max(0, len(text)-4<<10):]))
	}
	return errors.Join(errs...)
}

func (c *Patroni) stop() {
	for _, n := range c.Nodes {
		_ = n.Resume()
		n.Kill()
		if n.logFile != nil {
			_ = n.logFile.Close()
		}
		_ = os.RemoveAll(n.folder)
	}
}

// Addr returns the node's own address with this index.
func (n *Node) Addr(place int) string { return n.ownAddrs[place] }

// IsPrimary asks the node at its own address, not at the one that other nodes use.
func (n *Node) IsPrimary() bool { return n.askPatroni("/primary", nil) == nil }

// askPatroni makes a request to Patroni's REST API. A frozen node does not answer.
func (n *Node) askPatroni(path string, answer any) error {
	client := http.Client{Timeout: 500 * time.Millisecond}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + n.ownAddrs[NodeREST] + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// Start starts a node that is down.
func (n *Node) Start() (err error) {
	if n.logFile == nil {
		if n.logFile, err = os.CreateTemp(n.folder, "patroni-*.log"); err != nil {
			return err
		}
	}
	cmd := exec.Command(n.cluster.patroniProgram, n.configFile)
	n.cluster.identity.runAs(cmd)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.folder, n.logFile, n.logFile
	cmd.Env = append(os.Environ(), "HOME="+n.folder, "LC_ALL=C")
	// At this signal Patroni stops PostgreSQL, which would otherwise outlive it.
	ended, err := daemon.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return err
	}
	n.cmd, n.ended = cmd, ended
	return nil
}

// Kill ends the node like a power failure of its machine: Patroni, and all of PostgreSQL.
func (n *Node) Kill() {
	if n.cmd == nil {
		return
	}
	all := n.processIDs()
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-n.ended
	n.cmd = nil
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until) && anyProcessRuns(all); {
		time.Sleep(10 * time.Millisecond)
	}
}

// Crash kills PostgreSQL, and lets Patroni run.
func (n *Node) Crash() {
	if pid := n.postmasterID(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Freeze stops the node as a hypervisor stops a machine: none of its processes runs until Resume.
func (n *Node) Freeze() error { return n.signalAll(syscall.SIGSTOP) }

// Resume ends Freeze.
func (n *Node) Resume() error { return n.signalAll(syscall.SIGCONT) }

func (n *Node) signalAll(s syscall.Signal) error {
	if n.cmd == nil {
		return nil
	}
	for range 2 { // twice, because a process may have been started meanwhile
		for _, pid := range n.processIDs() {
			if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// processIDs returns the processes of the node, parents before their children.
func (n *Node) processIDs() []int {
	all := []int{n.cmd.Process.Pid}
	if pid := n.postmasterID(); pid > 0 {
		all = append(all, pid)
	}
	for i := 0; i < len(all); i++ {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i])) // no files once the process has ended
		for _, of := range threads {
			text, _ := os.ReadFile(of)
			for field := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && !slices.Contains(all, pid) {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// postmasterID returns the first process of PostgreSQL, or 0 if there is none.
func (n *Node) postmasterID() int {
	text, err := os.ReadFile(filepath.Join(n.folder, "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return 0
	}
	// The file may be left from a server that has ended, and another process may have its number
	// by now.
	if at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || at != filepath.Join(n.folder, "data") {
		return 0
	}
	return pid
}

func anyProcessRuns(all []int) bool {
	for _, pid := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(text), ") Z ") {
			return true
		}
	}
	return false
}
