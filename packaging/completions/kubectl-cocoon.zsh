#compdef kubectl-cocoon
# zsh completion of kubectl-cocoon called directly; `kubectl cocoon` asks kubectl_complete-cocoon by itself.

_kubectl_cocoon() {
    local -a found
    found=(${(f)"$(kubectl_complete-cocoon ${words[2,CURRENT]} 2> /dev/null | sed '/^:/d; s/\t.*//')"})
    compadd -a found
}
compdef _kubectl_cocoon kubectl-cocoon
