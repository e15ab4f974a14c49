package autobatch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The variables that [FromEnv] reads.
const (
	EnvSwitch           = "AUTO_BATCH_SWITCH"            // true or false; defaults to false
	EnvDBType           = "AUTO_BATCH_DB_TYPE"           // in-memory (default), psql or sqlite
	EnvMaxSize          = "AUTO_BATCH_MAX_SIZE"          // largest number of orders in a batch
	EnvMaxBytes         = "AUTO_BATCH_MAX_BYTES"         // largest number of bytes in a batch; -1 means unlimited
	EnvFlushAge         = "AUTO_BATCH_FLUSH_AGE"         // a duration; this and the durations below as in Go: 500ms, 1m
	EnvBatchInterval    = "AUTO_BATCH_BATCH_INTERVAL"    //
	EnvMonitorInterval  = "AUTO_BATCH_MONITOR_INTERVAL"  //
	EnvRetryInterval    = "AUTO_BATCH_RETRY_INTERVAL"    //
	EnvRecoveryInterval = "AUTO_BATCH_RECOVERY_INTERVAL" //
	EnvMaxAttempts      = "AUTO_BATCH_MAX_ATTEMPTS"      // number of attempts; -1 means unlimited
)

// FromEnv reads options from variables, as docs/glossary.md#auto-batch configures a wallet.
// getenv is os.Getenv, for example; this package never calls os.Getenv itself. A variable that
// is not set, or empty, means its default. Without AUTO_BATCH_SWITCH=true the options are
// Disabled. The error joins one [*batch.InputError] for each variable that cannot be read, or
// names two options that contradict each other.
func FromEnv(getenv func(string) string) (Options, error) {
	var o Options
	var errs []error
	read := func(name, want string, parse func(string) error) {
		v := strings.TrimSpace(getenv(name))
		if v == "" {
			return
		}
		if err := parse(v); err != nil {
			errs = append(errs, &batch.InputError{Field: name, Value: batch.Excerpt(v, 64), Want: want})
		}
	}
	number := func(name string, into *int, least int) {
		want := fmt.Sprintf("a whole number of %d or more", max(1, least))
		if least < 0 {
			want = "a whole number of 1 or more, or -1 for unlimited"
		}
		read(name, want, func(v string) (err error) {
			if *into, err = strconv.Atoi(v); err == nil && (*into < least || *into == 0) {
				return strconv.ErrRange
			}
			return err
		})
	}
	duration := func(name string, into *time.Duration, least time.Duration) {
		want := "a duration with its unit, such as 500ms or 1m"
		read(name, want, func(v string) (err error) {
			if *into, err = time.ParseDuration(v); err == nil && *into < least {
				return strconv.ErrRange
			}
			return err
		})
	}
	o.Disabled = true
	read(EnvSwitch, "true or false", func(v string) error {
		on, err := strconv.ParseBool(v)
		o.Disabled = !on || err != nil
		return err
	})
	read(EnvDBType, fmt.Sprintf("%s, %s or %s", DBMemory, DBPostgres, DBSQLite), func(v string) error {
		o.DB = DB(v)
		if o.DB != DBMemory && o.DB != DBPostgres && o.DB != DBSQLite {
			return strconv.ErrSyntax
		}
		return nil
	})
	number(EnvMaxSize, &o.MaxSize, 1)
	number(EnvMaxBytes, &o.MaxBytes, -1)
	number(EnvMaxAttempts, &o.MaxAttempts, -1)
	duration(EnvFlushAge, &o.FlushAge, 0)
	for name, into := range map[string]*time.Duration{
		EnvBatchInterval: &o.BatchInterval, EnvMonitorInterval: &o.MonitorInterval,
		EnvRetryInterval: &o.RetryInterval, EnvRecoveryInterval: &o.RecoveryInterval,
	} {
		duration(name, into, time.Millisecond) // 0 would mean the default, which users who write 0 do not expect
	}
	if len(errs) > 0 {
		return Options{}, fmt.Errorf("autobatch: environment: %w", errors.Join(errs...))
	}
	if err := o.withDefaults().check(); err != nil {
		return Options{}, err
	}
	return o, nil
}
