package loop

import (
	"context"
	"runtime/debug"
	"time"
)

// A server in steady state allocates nothing, so the garbage collector has no
// reason to run, and what a burst of connections or keys has left behind would
// stay resident for minutes. After a burst the memory is given back on purpose.
const (
	churnThreshold = 512             // sessions begun and ended that make it worth while
	keysThreshold  = 16384           // keys gone from one shard that make it worth while
	tidyQuiet      = time.Second     // the burst must have been over for this long
	tidyInterval   = 5 * time.Second // at most this often while it goes on
)

// stirMemory counts sessions that came or went.
func (srv *Server) stirMemory(n int64) {
	if srv.churn.Add(n) >= churnThreshold {
		srv.askToTidy()
	}
}

func (srv *Server) askToTidy() {
	select {
	case srv.untidy <- struct{}{}:
	default:
	}
}

// watchMemory follows the number of keys of l and asks for tidying when many
// have gone.
func (l *loop) watchMemory(keys int) {
	if keys > l.peakKeys {
		l.peakKeys = keys
		return
	}
	if l.peakKeys-keys >= keysThreshold {
		l.srv.askToTidy()
	}
	l.peakKeys = keys
}

// tidyMemory gives memory back after bursts until ctx is done.
func (srv *Server) tidyMemory(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-srv.untidy:
		}
		for waited := time.Duration(0); waited < tidyInterval; waited += tidyQuiet {
			before := srv.churn.Load()
			select {
			case <-ctx.Done():
				return
			case <-time.After(tidyQuiet):
			}
			if srv.churn.Load() == before {
				break
			}
		}
		srv.churn.Store(0)
		srv.cfg.Processors.Enter()
		debug.FreeOSMemory()
		srv.cfg.Processors.Leave()
	}
}
