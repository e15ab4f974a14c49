package splintertest

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"time"
)

// Circuit is some services that share one state.
type Circuit struct {
	// ID is five letters or digits, a hyphen and five more.
	ID string
	// Version of scabbard: 1, where every service proposes its own batches, or 2,
	// where that with the lowest id proposes all. Defaults to 2.
	Version int
	// Services are ids of four letters or digits; the i-th runs on node i modulo the
	// number of nodes. Defaults to a000 and a001.
	Services []string
}

// Options of a network. Nil, or any zero field, means the default. Scabbard's own
// times are scaled down where a test cannot wait that long: what matters to a client
// is which is longer than which. [Real] has them as they are.
type Options struct {
	// Addrs are what the nodes listen on; fixed ports serve tests that come back at the
	// same address. Defaults to two times "127.0.0.1:0".
	Addrs []string
	// Listen opens them. Defaults to TCP; a test in virtual time brings listeners that
	// use no sockets.
	Listen func(addr string) (net.Listener, error)
	// Circuits defaults to two of version 2, aaaaa-bbbbb and ccccc-ddddd.
	Circuits []Circuit

	// CommitInterval is how long one proposal takes: batches of a queue commit one by
	// one. The peers check it after half of it. Defaults to 5 ms; a real node needs 0.5 s.
	CommitInterval time.Duration
	// Poll is how long the coordinator takes to look at its queue again: so long is every
	// batch at least Pending. Defaults to none; a real node needs 0.02 to 0.2 s.
	Poll time.Duration
	// ApplyDelay is how long the peers commit after the coordinator. Defaults to none:
	// then they commit at once, and only [Faults] kill a node in between. A real node needs
	// 0.1 s.
	ApplyDelay time.Duration
	// CoordinatorTimeout is how long a proposal waits for the peers before it is rolled
	// back. Defaults to 30 s.
	CoordinatorTimeout time.Duration
	// Hop is how long a message of one service to another takes that carries a batch, or
	// the word to take no more of them. Defaults to none.
	Hop time.Duration
	// Workers is how many requests a node serves at once, and how many of them may wait
	// for a stalled service until it answers nothing at all: real nodes have as many as
	// cores. Defaults to 2.
	Workers int
	// PoisonStall is how long a batch that nobody serves holds submits and statuses of
	// its service. Defaults to 300 s.
	PoisonStall time.Duration
	// HistorySize is how many batches a service remembers. Defaults to 100.
	HistorySize int
	// QueueStop and QueueResume are the lengths of the coordinator's queue from which
	// on, and below which again, version 2 answers as usual. Default to 30 and 15.
	QueueStop, QueueResume int
	// WaitDefault is what a `wait` without a number means. Defaults to 300 s.
	WaitDefault time.Duration
	// KeepAlive is how long a silent connection lives. Defaults to 5 s.
	KeepAlive time.Duration
	// PingEvery is the time between the pings of a websocket. Defaults to 30 s.
	PingEvery time.Duration
	// SubscribeGap is the time between reading the history and registering a
	// subscriber, in which events are lost. Defaults to none.
	SubscribeGap time.Duration

	// Old makes it a node before 0.6.13: no message of Unknown and Pending, 408 at the
	// end of a wait. Defaults to false.
	Old bool
	// Families that have a handler; all others are poison. Defaults to sabre.
	Families []string
	// Authorize says whether the value of an Authorization header may do this. Defaults
	// to everybody.
	Authorize func(header string, op Operation) bool
	// Users that can log in with Biome: names and hashed passwords. Their tokens are
	// good beside those of Authorize. Defaults to none.
	Users map[string]string

	// Faults to inject. Defaults to none.
	Faults *Faults
}

// Real returns the times of the nodes that were measured, Splinter 0.6.14 on two cores,
// for tests in virtual time.
func Real() *Options {
	return &Options{
		Poll: 50 * time.Millisecond, CommitInterval: 450 * time.Millisecond, ApplyDelay: 100 * time.Millisecond,
		Hop: 300 * time.Millisecond,
	}
}

var (
	circuitForm = regexp.MustCompile(`^[0-9A-Za-z]{5}-[0-9A-Za-z]{5}$`)
	serviceForm = regexp.MustCompile(`^[0-9A-Za-z]{4}$`)
)

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Listen == nil {
		c.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	for _, d := range [...]struct {
		name string
		d    *time.Duration
		def  time.Duration
	}{
		{"CommitInterval", &c.CommitInterval, 5 * time.Millisecond},
		{"Poll", &c.Poll, 0},
		{"ApplyDelay", &c.ApplyDelay, 0},
		{"CoordinatorTimeout", &c.CoordinatorTimeout, 30 * time.Second},
		{"Hop", &c.Hop, 0},
		{"PoisonStall", &c.PoisonStall, 300 * time.Second},
		{"WaitDefault", &c.WaitDefault, 300 * time.Second},
		{"KeepAlive", &c.KeepAlive, 5 * time.Second},
		{"PingEvery", &c.PingEvery, 30 * time.Second},
		{"SubscribeGap", &c.SubscribeGap, 0},
	} {
		if *d.d < 0 {
			return Options{}, fmt.Errorf("splintertest: %s (%v) is negative", d.name, *d.d)
		}
		if *d.d == 0 {
			*d.d = d.def
		}
	}
	for _, d := range [...]struct {
		n   *int
		def int
	}{{&c.HistorySize, 100}, {&c.QueueStop, 30}, {&c.QueueResume, 15}, {&c.Workers, 2}} {
		if *d.n <= 0 {
			*d.n = d.def
		}
	}
	if c.QueueResume > c.QueueStop {
		return Options{}, fmt.Errorf("splintertest: QueueResume (%d) is more than QueueStop (%d)", c.QueueResume, c.QueueStop)
	}
	if len(c.Addrs) == 0 {
		c.Addrs = []string{"127.0.0.1:0", "127.0.0.1:0"}
	}
	if c.Circuits == nil {
		c.Circuits = []Circuit{{ID: "aaaaa-bbbbb"}, {ID: "ccccc-ddddd"}}
	}
	c.Circuits = slices.Clone(c.Circuits)
	for i := range c.Circuits {
		if err := c.Circuits[i].check(); err != nil {
			return Options{}, err
		}
	}
	if c.Families == nil {
		c.Families = []string{Family}
	}
	if c.Faults != nil {
		f := *c.Faults
		if err := f.check(); err != nil {
			return Options{}, err
		}
		c.Faults = &f
	}
	return c, nil
}

func (c *Circuit) check() error {
	if c.Version == 0 {
		c.Version = 2
	}
	if c.Services == nil {
		c.Services = []string{"a000", "a001"}
	}
	if !circuitForm.MatchString(c.ID) || (c.Version != 1 && c.Version != 2) || len(c.Services) == 0 {
		return fmt.Errorf("splintertest: circuit %q of version %d with %d services", c.ID, c.Version, len(c.Services))
	}
	for _, s := range c.Services {
		if !serviceForm.MatchString(s) {
			return fmt.Errorf("splintertest: service %q of circuit %q", s, c.ID)
		}
	}
	return nil
}
