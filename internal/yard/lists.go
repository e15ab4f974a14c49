package main

import (
	"context"
	"encoding/binary"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// listing is a client of a ledger that takes lists.
type listing struct {
	*fake
	most int // batches in a list
}

// Traits implements dlt.Ledger.
func (l *listing) Traits(s batch.ServiceID) dlt.Traits {
	traits := l.fake.Traits(s)
	traits.MaxList = l.most
	return traits
}

// SubmitList implements dlt.ListSubmitter.
func (l *listing) SubmitList(ctx context.Context, list []batch.Attempt) error {
	size := 0
	for _, a := range list {
		size += 4 + len(a.Payload)
	}
	body := make([]byte, 0, size)
	for _, a := range list {
		if m := l.w.moment(a.ID); m != nil {
			m.posted = l.w.now()
		}
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(a.Payload))), a.Payload...)
	}
	err := l.post(ctx, "/lists", body)
	for _, a := range list {
		if m := l.w.moment(a.ID); m != nil {
			m.accepted = l.w.now()
		}
	}
	return err
}
