package dltmock_test

import (
	"context"
	"fmt"

	"go.uber.org/mock/gomock"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dltmock"
)

// reporter takes the place of *testing.T.
type reporter struct{}

func (reporter) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (reporter) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// The mock answers "busy" first and accepts the second call, in exactly this order.
func Example() {
	ledger := dltmock.NewMockSubmitter(gomock.NewController(reporter{})) // a test calls NewController(t)
	gomock.InOrder(
		ledger.EXPECT().Submit(gomock.Any(), gomock.Any()).Return(dlt.ErrBusy),
		ledger.EXPECT().Submit(gomock.Any(), gomock.Any()).Return(nil),
	)
	for n := range 2 {
		err := ledger.Submit(context.Background(), batch.Attempt{Key: batch.Key{ID: "b1"}, Number: n + 1})
		fmt.Println(err)
	}
	// Output:
	// ledger busy
	// <nil>
}
