// Package storemock holds a generated mock of the application's half of a store, for
// tests that prescribe single calls. For a store that keeps batches, and for a Runner,
// take store/memory.
//
//	st := storemock.NewMockBatchStore(gomock.NewController(t))
//	st.EXPECT().Add(gomock.Any(), gomock.Any()).Return(errors.New("disk full"))
package storemock

import "github.com/dltbatch/dltbatch/store"

var _ store.BatchStore = (*MockBatchStore)(nil)
