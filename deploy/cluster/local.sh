#!/bin/sh
# Three nodes on one machine, to try a cluster out:
#
#   make cluster                 starts n1, n2 and n3; Ctrl-C ends them
#   deploy/cluster/local.sh n2   starts one of them again, in the foreground
#
# Node N is at 127.0.1.N, or NET.N: clients on 7400, the admin endpoint on 7401,
# the other nodes on 7402. DIR is where the data goes (./cluster-data), BIN the
# program (bin/ticketing). Other settings, such as AUTH_SECRET_FILE, are taken
# from the environment by all three.
set -eu

bin=${BIN:-bin/ticketing}
dir=${DIR:-cluster-data}
net=${NET:-127.0.1}
nodes="n1 n2 n3"

[ -x "$bin" ] || { echo "$bin is not there: make build" >&2; exit 1; }

# settings NODE prints the settings of a node, one a line.
settings() {
	host=$net.${1#n}
	cat <<-END
		LISTEN_ADDR=$host:7400
		ADMIN_ADDR=$host:7401
		CLUSTER_NODE_ID=$1
		CLUSTER_NAME=local
		CLUSTER_PEERS=n1=$net.1:7402,n2=$net.2:7402,n3=$net.3:7402
		CLUSTER_DATA_DIR=$dir/$1
	END
}

if [ $# = 1 ]; then
	case " $nodes " in *" $1 "*) ;; *) echo "there is no $1, only $nodes" >&2; exit 2 ;; esac
	mkdir -p "$dir"
	# Settings have no spaces but where DIR has, which IFS keeps together.
	IFS='
'
	exec env $(settings "$1") "$bin" serve
fi
[ $# = 0 ] || { echo "usage: $0 [NODE]" >&2; exit 2; }

mkdir -p "$dir"
pids=
stop() {
	trap '' INT TERM
	# shellcheck disable=SC2086 # one argument a process
	[ -z "$pids" ] || kill $pids 2>/dev/null || true
	wait
	echo "all nodes have ended; their data stays in $dir"
}
trap 'stop; exit 0' INT TERM

admins= clients=
for node in $nodes; do
	BIN=$bin DIR=$dir NET=$net "$0" "$node" >>"$dir/$node.log" 2>&1 &
	pids="$pids $!"
	echo "$node: process $!, clients $net.${node#n}:7400, dashboard http://$net.${node#n}:7401, log $dir/$node.log"
	admins=$admins,$net.${node#n}:7401
	clients=$clients,$net.${node#n}:7400
done
admins=${admins#,} clients=${clients#,}

until "$bin" cluster status --json --admin-addr="$admins" 2>/dev/null | grep -q '"serving": true'; do
	for pid in $pids; do
		kill -0 "$pid" 2>/dev/null && continue
		echo "a node has ended; the last words of each:" >&2
		for node in $nodes; do tail -n 1 "$dir/$node.log" >&2; done
		stop
		exit 1
	done
	sleep 0.1
done

cat <<END

A leader is there. In another terminal:

  $bin cluster status --admin-addr=$admins
  $bin lock hello --addr=$clients -- sh -c 'echo "token \$TICKETING_TOKEN"; sleep 5'
  $bin cluster transfer --admin-addr=$admins
  $bin bench --addr=$clients --duration=5s

Kill a node and start it again:  kill -9 PROCESS;  $0 NODE
Ctrl-C here ends all three. The data is in $dir: the next start goes on with it.
END
# A node that is killed leaves the others running, and this script waiting.
wait
