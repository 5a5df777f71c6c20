package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
)

// subject is a way to take and give back a lock that is measured: a server with
// its settings, and the protocol that drives it.
type subject struct {
	id    string // in the JSON file, and what targets name
	title string // in tables
	short string // in plots
	start func(*options) (*process, error)
	proto func() protocol // nil: etcd, which has a driver of its own
}

const (
	loops1   = "ticketing-1"
	loops2   = "ticketing-2"
	bare     = "floor"
	setDel   = "redis-set-del"
	lua      = "redis-lua"
	blpop    = "redis-blpop"
	memcache = "memcached"
	etcdLock = "etcd"
)

// pairSubjects are the ways to take and release a lock nobody else wants.
func pairSubjects() []subject {
	all := []subject{ticketing(1), ticketing(2)}
	if usual := usualLoops(); usual > 2 {
		all = append(all, ticketing(usual))
	}
	return append(all,
		subject{bare, "floor: bare gnet loop", "floor", startFloor, newTicketingProtocol},
		subject{setDel, "Redis, SET NX PX and DEL", "Redis DEL", startRedis, newSetDel},
		subject{lua, "Redis, SET NX PX and Lua compare-and-delete", "Redis Lua", startRedis, newLua},
		subject{memcache, "memcached, add and delete", "memcached", startMemcached, newMemcached},
		subject{etcdLock, "etcd, lease with txn and delete", "etcd", startEtcd, nil})
}

// usualLoops is the LOOPS a server chooses by itself: half of the CPUs.
func usualLoops() int { return max(1, runtime.NumCPU()/2) }

// ticketing is our server with a number of loops.
func ticketing(loops int, settings ...string) subject {
	title := fmt.Sprintf("Ticketing, LOOPS=%d", loops)
	if loops == usualLoops() {
		title += " (the default here)"
	}
	start := func(o *options) (*process, error) {
		p := &process{name: title, both: true, cmd: exec.Command(o.binary, "serve")}
		p.cmd.Env = append(os.Environ(), "LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "LOOPS="+strconv.Itoa(loops))
		p.cmd.Env = append(p.cmd.Env, settings...)
		return launch(p, true)
	}
	n := strconv.Itoa(loops)
	return subject{"ticketing-" + n, title, "LOOPS=" + n, start, newTicketingProtocol}
}

// startFloor runs the floor with as many processors as loops, as Ticketing does.
func startFloor(*options) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: "floor", cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), floorVariable+"=1", "GOMAXPROCS=1")
	return launch(p, true)
}

// startRedis runs Redis without persistence. Its commands run on one thread
// always, and one thread does its network work unless io-threads is raised,
// which costs more CPU for each operation.
func startRedis(*options) (*process, error) {
	return startPlain("redis-server", func(port, dir string) []string {
		return []string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no",
			"--loglevel", "warning", "--maxclients", "10000"}
	})
}

// startMemcached runs memcached with one thread, memory for a million items, and
// as many requests of a connection in one go as a pipeline has here.
func startMemcached(*options) (*process, error) {
	return startPlain("memcached", func(port, dir string) []string {
		args := []string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "1", "-m", "1024", "-c", "9000", "-R", "64"}
		if os.Getuid() == 0 {
			args = append(args, "-u", "root")
		}
		return args
	})
}

// startEtcd runs one member, with its files in memory where that is possible:
// fdatasync costs nothing then.
func startEtcd(*options) (*process, error) {
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	return startPlain("etcd", func(port, dir string) []string { return etcdArgs(port, peer, dir) })
}

func etcdArgs(port, peer, dir string) []string {
	client, peers := "http://127.0.0.1:"+port, "http://127.0.0.1:"+peer
	return []string{"--name", "one", "--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "one=" + peers,
		"--log-level", "error", "--logger", "zap"}
}

// startEtcdIn runs one member with its files in dir, which need not be there.
func startEtcdIn(dir string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	return launch(&process{name: "etcd", dir: dir, addr: "127.0.0.1:" + port, cmd: exec.Command("etcd", etcdArgs(port, peer, dir)...)}, false)
}

// startPlain runs a server that is told its port.
func startPlain(binary string, args func(port, dir string) []string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "compare-")
	if err != nil {
		return nil, err
	}
	p := &process{name: binary, dir: dir, addr: "127.0.0.1:" + port, cmd: exec.Command(binary, args(port, dir)...)}
	p, err = launch(p, false)
	if err != nil {
		os.RemoveAll(dir)
	}
	return p, err
}

// installed drops the subjects whose server is not there, and names them.
func installed(all []subject) (there []subject, missing []string) {
	binaries := map[string]string{setDel: "redis-server", lua: "redis-server", blpop: "redis-server", memcache: "memcached", etcdLock: "etcd"}
	for _, s := range all {
		if binary := binaries[s.id]; binary != "" {
			if _, err := exec.LookPath(binary); err != nil {
				if !slices.Contains(missing, binary) {
					missing = append(missing, binary)
				}
				continue
			}
		}
		there = append(there, s)
	}
	return there, missing
}
