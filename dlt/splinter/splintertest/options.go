package splintertest

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"time"
)

// Circuit is a group of services that share one state.
type Circuit struct {
	// ID is five letters or digits, a hyphen and five more.
	ID string
	// Version of scabbard: 1, in which every service proposes its own batches, or 2, in which
	// the service with the lowest id proposes all. Defaults to 2.
	Version int
	// Services are ids of four letters or digits; the i-th runs on node i modulo the
	// number of nodes. Defaults to a000 and a001.
	Services []string
}

// Options of a network. Nil, or any zero field, means the default. If a test cannot wait for
// Scabbard's own times, scale them down: only their order matters to a client. [RealTimes] has the
// real ones.
type Options struct {
	// Addrs are the addresses on which the nodes listen; fixed ports let tests come back to
	// the same address. Defaults to two times "127.0.0.1:0".
	Addrs []string
	// Listen opens a listener. Defaults to TCP; a test in virtual time brings listeners
	// without sockets.
	Listen func(addr string) (net.Listener, error)
	// Circuits of the network. Defaults to two of version 2, aaaaa-bbbbb and ccccc-ddddd.
	Circuits []Circuit

	// CommitInterval is how long one proposal takes: the batches of a queue commit one by one.
	// The peers check a proposal after half of it. Defaults to 5 ms; a real node needs 0.5 s.
	CommitInterval time.Duration
	// PollInterval is the time between two reads of its queue by the coordinator: every batch is
	// Pending for at least this time. Defaults to none; a real node needs 0.02 to 0.2 s.
	PollInterval time.Duration
	// ApplyDelay is how long after the coordinator the peers commit. Defaults to none: then
	// they commit at once, and only [Faults] kill a node in between. A real node needs 0.1 s.
	ApplyDelay time.Duration
	// CoordinatorTimeout is how long a proposal waits for the peers before a rollback.
	// Defaults to 30 s.
	CoordinatorTimeout time.Duration
	// MessageDelay delays two kinds of messages between services: those that carry a batch, and
	// those that tell a service to refuse batches for now, or to accept them again. Defaults to
	// none.
	MessageDelay time.Duration
	// UnservedHold is how long an unserved batch holds submissions and statuses of its service.
	// Defaults to 300 s.
	UnservedHold time.Duration
	// HistorySize is how many batches a service remembers. Defaults to 100.
	HistorySize int
	// DefaultWait is the meaning of a `wait` without a number. Defaults to 300 s.
	DefaultWait time.Duration
	// KeepAliveTimeout is how long a silent connection lives. Defaults to 5 s.
	KeepAliveTimeout time.Duration
	// PingInterval is the time between the pings of a websocket. Defaults to 30 s.
	PingInterval time.Duration
	// SubscribeGap is the time between reading the history and registering a
	// subscriber, in which events are lost. Defaults to none.
	SubscribeGap time.Duration

	// Before0613 makes the nodes older than 0.6.13: no message with Unknown and Pending, 408 at
	// the end of a wait. Defaults to false.
	Before0613 bool
	// Families that have a handler; a batch of any other family stalls its service for
	// UnservedHold. Defaults to sabre.
	Families []string
	// Authorize reports whether the value of an Authorization header permits the operation.
	// Defaults to always.
	Authorize func(header string, op Operation) bool
	// Users that can log in with Biome: names and hashed passwords. Their tokens are valid
	// in addition to those of Authorize. Defaults to none.
	Users map[string]string

	// Faults to inject. Defaults to none.
	Faults *Faults
}

// RealTimes returns the measured times of real nodes, Splinter 0.6.14 on two cores, for tests in
// virtual time.
func RealTimes() *Options {
	return &Options{
		PollInterval: 50 * time.Millisecond, CommitInterval: 450 * time.Millisecond, ApplyDelay: 100 * time.Millisecond,
		MessageDelay: 300 * time.Millisecond,
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
		name         string
		d            *time.Duration
		defaultValue time.Duration
	}{
		{"CommitInterval", &c.CommitInterval, 5 * time.Millisecond},
		{"PollInterval", &c.PollInterval, 0},
		{"ApplyDelay", &c.ApplyDelay, 0},
		{"CoordinatorTimeout", &c.CoordinatorTimeout, 30 * time.Second},
		{"MessageDelay", &c.MessageDelay, 0},
		{"UnservedHold", &c.UnservedHold, 300 * time.Second},
		{"DefaultWait", &c.DefaultWait, 300 * time.Second},
		{"KeepAliveTimeout", &c.KeepAliveTimeout, 5 * time.Second},
		{"PingInterval", &c.PingInterval, 30 * time.Second},
		{"SubscribeGap", &c.SubscribeGap, 0},
	} {
		if *d.d < 0 {
			return Options{}, fmt.Errorf("splintertest: %s (%v) is negative", d.name, *d.d)
		}
		if *d.d == 0 {
			*d.d = d.defaultValue
		}
	}
	if c.HistorySize <= 0 {
		c.HistorySize = 100
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
