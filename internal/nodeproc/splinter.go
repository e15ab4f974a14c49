package main

import (
	"fmt"

	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

type splinterNode struct{ *splintertest.Network }

func listenSplinter(s settings) (ledger, error) {
	// Each service has a circuit of its own, because services of one circuit wait for each
	// other.
	circuits := make([]splintertest.Circuit, s.circuits)
	for i := range circuits {
		circuits[i] = splintertest.Circuit{ID: fmt.Sprintf("aaaaa-%05d", i), Services: []string{"a000"}}
	}
	net, err := splintertest.Listen(&splintertest.Options{Addrs: []string{s.addr}, CommitInterval: s.block, Circuits: circuits})
	if err != nil {
		return nil, err
	}
	return splinterNode{net}, nil
}

func (n splinterNode) url() string { return n.URL(0) }

func (n splinterNode) moments() (out []moment) {
	for _, e := range n.Journal() {
		committed := e.Kind == splintertest.Executed && e.Word == "Committed"
		if committed || e.Kind == splintertest.PostStart {
			out = append(out, moment{e.Time.UnixNano(), committed, e.Batches})
		}
	}
	return out
}
