package main

import "github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"

type sawtoothNode struct{ *sawtoothtest.Node }

func listenSawtooth(s settings) (ledger, error) {
	node, err := sawtoothtest.Listen(&sawtoothtest.Options{
		Addr: s.addr, BlockInterval: s.block, MaxBatchesPerBlock: s.perBlock, PublishDelay: s.delay, PoolLimit: s.pool,
		SkipVerify: s.trust, NoJournal: !s.journal,
	})
	if err != nil {
		return nil, err
	}
	return sawtoothNode{node}, nil
}

func (n sawtoothNode) url() string { return n.URL() }

func (n sawtoothNode) moments() (out []moment) {
	for _, e := range n.Journal() {
		if e.Kind == sawtoothtest.PostStart || e.Kind == sawtoothtest.BlockCommitted {
			out = append(out, moment{e.Time.UnixNano(), e.Kind == sawtoothtest.BlockCommitted, e.Batches})
		}
	}
	return out
}
