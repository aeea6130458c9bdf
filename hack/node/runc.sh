#!/bin/sh
# Runs runc without seccomp profiles: kubelet demands one for each Pod's sandbox, and the runc of a real node is built
# without libseccomp. runc ignores fields of config.json that it does not know.
bundle=
previous=
for argument in "$@"; do
  if [ "$previous" = --bundle ]; then
    bundle=$argument
  fi
  previous=$argument
done
if [ -n "$bundle" ]; then
  sed -i 's/"seccomp":{/"ignoredSeccomp":{/' "$bundle/config.json" || exit 1
fi
exec runc "$@"
