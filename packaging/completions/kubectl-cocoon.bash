# bash completion of `kubectl cocoon`, and of kubectl-cocoon called directly.
# kubectl asks a program called kubectl_complete-cocoon for the words of a plugin: make install puts this file's companion
# there.

_kubectl_cocoon() {
    local current=${COMP_WORDS[COMP_CWORD]}
    mapfile -t COMPREPLY < <(kubectl_complete-cocoon "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null | sed '/^:/d' \
        | while IFS=$'\t' read -r word _; do
            case $word in "$current"*) printf '%s\n' "$word" ;; esac
        done)
}
complete -F _kubectl_cocoon kubectl-cocoon
